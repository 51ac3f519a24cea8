// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Variable paths, below the scope given to New. They are a file format; the package documentation lists them.
const (
	scopeName       = "wepe"
	nameOmega3      = "omega3_raw"
	nameOmega3Re    = "omega3_re"
	nameAlphaScale  = "alpha_scale_raw"
	nameBetaPos     = "beta_pos"
	namePrefix      = "prefix"
	scopeProjection = "projection"
	scopeHidden     = "hidden"
	scopeOutput     = "output"
	scopeDense      = "dense"
	scopeNorm       = "layer_normalization"
)

func scalarVariable(scope *model.Scope, name string, dtype dtypes.DType, value float64, learn bool) *model.Variable {
	// Set both ways: a variable that comes out of a checkpoint is trainable.
	return constantVariable(scope, name, dtype, value).SetTrainable(learn)
}

func constantVariable(scope *model.Scope, name string, dtype dtypes.DType, value float64, dims ...int) *model.Variable {
	return variable(scope, name, dtype, func() float64 { return value }, dims...)
}

// listVariable starts at the given values.
func listVariable(scope *model.Scope, name string, dtype dtypes.DType, values []float64, learn bool) *model.Variable {
	i := -1
	next := func() float64 { i++; return values[i] }
	return variable(scope, name, dtype, next, len(values)).SetTrainable(learn)
}

// draw is a distribution of initial values.
type draw func(r *rand.Rand) float64

func normal(std float64) draw { return func(r *rand.Rand) float64 { return std * r.NormFloat64() } }

// xavierUniform is uniform in ±gain·√(6/(inputs + outputs)).
func xavierUniform(gain float64, inputs, outputs int) draw {
	bound := gain * math.Sqrt(6/float64(inputs+outputs))
	return func(r *rand.Rand) float64 { return bound * (2*r.Float64() - 1) }
}

// drawnVariable starts at values that are a pure function of the seed (model.ParamInitialSeed) and of the variable's
// path: the store's random stream is left alone, so that models with and without WePE draw the same everything else.
func drawnVariable(scope *model.Scope, name string, dtype dtypes.DType, from draw, dims ...int) *model.Variable {
	path := fnv.New64a()
	path.Write([]byte(model.JoinPath(scope.Scope(), name)))
	seed := model.GetParamOr(scope, model.ParamInitialSeed, int64(0))
	r := rand.New(rand.NewPCG(uint64(seed), path.Sum64()))
	return variable(scope, name, dtype, func() float64 { return from(r) }, dims...)
}

// variable returns the variable of that name and creates it, element by element, if it is not there.
func variable(scope *model.Scope, name string, dtype dtypes.DType, next func() float64, dims ...int) *model.Variable {
	if v := scope.GetVariable(name); v != nil {
		if v.DType() != dtype || !slices.Equal(v.Shape().Dimensions, dims) {
			exceptions.Panicf("wepe: variable %q is %s, the encoder wants (%s)%v: it belongs to another model",
				v.Path(), v.Shape(), dtype, dims)
		}
		return v
	}
	value := tensors.FromShape(shapes.Make(dtype, dims...))
	value.MustMutableFlatData(func(flat any) {
		switch flat := flat.(type) {
		case []float32:
			for i := range flat {
				flat[i] = float32(next())
			}
		case []float64:
			for i := range flat {
				flat[i] = next()
			}
		}
	})
	v, err := scope.CreateVariable(name, value)
	if err != nil {
		panic(err)
	}
	return v
}
