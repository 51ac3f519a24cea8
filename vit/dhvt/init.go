// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/nn"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/vit"
)

// fill draws one element of a weight.
type fill func(r *rand.Rand) float64

func constant(value float64) fill { return func(*rand.Rand) float64 { return value } }

func normal(std float64) fill { return func(r *rand.Rand) float64 { return std * r.NormFloat64() } }

func uniform(bound float64) fill {
	return func(r *rand.Rand) float64 { return bound * (2*r.Float64() - 1) }
}

// initScheme says how each kind of weight starts; biases of dense layers and offsets at 0, gains at 1.
type initScheme struct {
	dense, token fill
	conv         func(fanIn, fanOut int) fill // convolutions, the pointwise ones too
	convBias     func(fanIn int) fill
}

func (c Config) initScheme() initScheme {
	torch := func(fanIn int) fill { return uniform(1 / math.Sqrt(float64(fanIn))) } // the default of Conv2d
	s := initScheme{
		dense: normal(0.02), token: normal(0.02),
		conv: func(fanIn, _ int) fill { return torch(fanIn) }, convBias: torch,
	}
	if c.Init == vit.InitRelease {
		s.conv = func(fanIn, fanOut int) fill { return uniform(math.Sqrt(6 / float64(fanIn+fanOut))) } // Xavier
		s.convBias = func(int) fill { return constant(0) }
	}
	return s
}

// weight returns the float32 variable of that name in scope and creates it if it is not there. As in package vit, its
// first values are a pure function of the seed (model.ParamInitialSeed) and the variable's path, drawn on the host.
func weight(scope *model.Scope, name string, values fill, dims ...int) *model.Variable {
	if v := scope.GetVariable(name); v != nil {
		if !slices.Equal(v.Shape().Dimensions, dims) {
			exceptions.Panicf("dhvt: variable %q has shape %v, the model wants %v: it belongs to another model",
				v.Path(), v.Shape().Dimensions, dims)
		}
		return v
	}
	size := 1
	for _, d := range dims {
		size *= d
	}
	path := fnv.New64a()
	path.Write([]byte(model.JoinPath(scope.Scope(), name)))
	r := rand.New(rand.NewPCG(uint64(model.GetParamOr(scope, model.ParamInitialSeed, int64(0))), path.Sum64()))
	flat := make([]float32, size)
	for i := range flat {
		flat[i] = float32(values(r))
	}
	v, err := scope.CreateVariable(name, tensors.FromFlatDataAndDimensions(flat, dims...))
	if err != nil {
		panic(err)
	}
	return v
}

// dense is x·weights + biases on the last axis.
func dense(scope *model.Scope, x *Node, out int, weights, biases fill) *Node {
	g, in := x.Graph(), x.Shape().Dim(-1)
	w := weight(scope, "weights", weights, in, out).NodeValue(g) // [in, out]
	b := weight(scope, "biases", biases, out).NodeValue(g)       // [out]
	return nn.Dense(x, w, b, compute.DenseLayoutInputOutputs)
}
