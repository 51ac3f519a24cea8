// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Initialisation schemes. They differ enough that results from scratch differ (timm issue 1477), so the choice is part
// of the configuration.
const (
	// InitTimm draws every linear weight from N(0, 0.02²) and the patch projection uniformly in ±1/√fan-in (PyTorch's
	// default). timm calls it trunc_normal_(std=.02), but cuts at ±2, a hundred deviations away.
	InitTimm = "timm"
	// InitJAX is Google's: Xavier-uniform weights, N(0, 1/fan-in) patch projection, MLP biases N(0, 1e-6²), head zero.
	InitJAX = "jax"
	// InitRelease is that of the WePE release: as timm, but Xavier-uniform patch projection and query, key, value; the
	// latter with the bounds of the stacked [3·width, width] matrix of torch's MultiheadAttention.
	InitRelease = "release"
)

var inits = []string{InitTimm, InitJAX, InitRelease}

// fill returns the generator of a weight's elements.
type fill func(r *rand.Rand, fanIn, fanOut int) float64

func constant(value float64) fill { return func(*rand.Rand, int, int) float64 { return value } }

func normal(std float64) fill {
	return func(r *rand.Rand, _, _ int) float64 { return std * r.NormFloat64() }
}

func uniform(r *rand.Rand, bound float64) float64 { return bound * (2*r.Float64() - 1) }

func torchLinear(r *rand.Rand, fanIn, _ int) float64 { return uniform(r, 1/math.Sqrt(float64(fanIn))) }

func lecunNormal(r *rand.Rand, fanIn, _ int) float64 {
	return r.NormFloat64() / math.Sqrt(float64(fanIn))
}

func xavier(r *rand.Rand, fanIn, fanOut int) float64 {
	return uniform(r, math.Sqrt(6/float64(fanIn+fanOut)))
}

func xavierStacked(r *rand.Rand, fanIn, fanOut int) float64 { return xavier(r, fanIn, 3*fanOut) }

// atOnce is a fill whose numbers belong together: one call draws them all, in the order of the elements.
func atOnce(draw func(r *rand.Rand) []float64) fill {
	var values []float64
	return func(r *rand.Rand, _, _ int) float64 {
		if len(values) == 0 {
			values = draw(r)
		}
		value := values[0]
		values = values[1:]
		return value
	}
}

// initScheme says how each kind of weight starts. Norm gains start at 1 and biases at 0 unless named here.
type initScheme struct {
	patch, query, dense, mlpBias, head, class fill
}

func (c Config) initScheme() initScheme {
	small := normal(0.02)
	switch c.Init {
	case InitJAX:
		return initScheme{lecunNormal, xavier, xavier, normal(1e-6), constant(0), constant(0)}
	case InitRelease:
		return initScheme{xavier, xavierStacked, small, constant(0), small, small}
	default:
		return initScheme{torchLinear, small, small, constant(0), small, normal(1e-6)}
	}
}

// weight returns the float32 variable of that name in scope and creates it if it is not there.
//
// Its first values are a pure function of the seed (model.ParamInitialSeed) and the variable's path, drawn on the host:
// two models that differ only in their position encoding start from the same backbone, on every backend.
func weight(scope *model.Scope, name string, values fill, dims ...int) *model.Variable {
	if v := scope.GetVariable(name); v != nil {
		if !slices.Equal(v.Shape().Dimensions, dims) {
			exceptions.Panicf("vit: variable %q has shape %v, the model wants %v: it belongs to another model",
				v.Path(), v.Shape().Dimensions, dims)
		}
		return v
	}
	size := 1
	for _, d := range dims {
		size *= d
	}
	fanIn, fanOut := size, size
	if len(dims) == 2 {
		fanIn, fanOut = dims[0], dims[1]
	}
	path := fnv.New64a()
	path.Write([]byte(model.JoinPath(scope.Scope(), name)))
	r := rand.New(rand.NewPCG(uint64(model.GetParamOr(scope, model.ParamInitialSeed, int64(0))), path.Sum64()))
	flat := make([]float32, size)
	for i := range flat {
		flat[i] = float32(values(r, fanIn, fanOut))
	}
	v, err := scope.CreateVariable(name, tensors.FromFlatDataAndDimensions(flat, dims...))
	if err != nil {
		panic(err)
	}
	return v
}
