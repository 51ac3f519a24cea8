// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package weight creates the variables of encodings and networks, and common layers.
//
// The initial values of a variable are a function of the seed (model.ParamInitialSeed) and its path, drawn on the host.
// Two models that differ only in their position encoding start from the same backbone on every backend.
package weight

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Fill draws one element of a variable. The fans are the two dimensions of a matrix, for other shapes its size.
type Fill func(r *rand.Rand, fanIn, fanOut int) float64

// Constant is one value everywhere.
func Constant(value float64) Fill { return func(*rand.Rand, int, int) float64 { return value } }

// Normal is N(0, std²).
func Normal(std float64) Fill {
	return func(r *rand.Rand, _, _ int) float64 { return std * r.NormFloat64() }
}

// Uniform is uniform in ±bound.
func Uniform(bound float64) Fill {
	return func(r *rand.Rand, _, _ int) float64 { return bound * (2*r.Float64() - 1) }
}

// Xavier is uniform in ±gain·√(6/(fanIn + fanOut)).
func Xavier(gain float64) Fill {
	return func(r *rand.Rand, fanIn, fanOut int) float64 {
		return Uniform(gain*math.Sqrt(6/float64(fanIn+fanOut)))(r, fanIn, fanOut)
	}
}

// AtOnce is for numbers that depend on each other: one call draws them all, in the order of the elements.
func AtOnce(draw func(r *rand.Rand) []float64) Fill {
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

// Float32 returns the variable of that name in scope and creates it, in float32, if it does not exist.
func Float32(scope *model.Scope, name string, values Fill, dims ...int) *model.Variable {
	shape := shapes.Make(dtypes.Float32, dims...)
	if v := scope.GetVariable(name); v != nil {
		if !v.Shape().Equal(shape) {
			exceptions.Panicf("variable %q is %s, the model wants %s: it belongs to another model", v.Path(), v.Shape(), shape)
		}
		return v
	}
	if shape.Rank() > 0 && model.GetParamOr(scope, abstract, false) { // a graph may read scalars while it is built
		return scope.VariableWithShape(name, shape)
	}
	value := tensors.FromShape(shape)
	fanIn, fanOut := value.Size(), value.Size()
	if len(dims) == 2 {
		fanIn, fanOut = dims[0], dims[1]
	}
	path := fnv.New64a()
	path.Write([]byte(model.JoinPath(scope.Scope(), name)))
	r := rand.New(rand.NewPCG(uint64(model.GetParamOr(scope, model.ParamInitialSeed, int64(0))), path.Sum64()))
	tensors.MustMutableFlatData(value, func(flat []float32) {
		for i := range flat {
			flat[i] = float32(values(r, fanIn, fanOut))
		}
	})
	v, err := scope.CreateVariable(name, value)
	if err != nil {
		panic(err)
	}
	return v
}

// abstract is set in stores whose variables have shapes and, except for scalars, no values.
const abstract = "abstract_variables"

// Count returns the number of trainable parameters that a model of images creates. The model is built and never run,
// and its variables take no memory.
func Count(logits func(scope *model.Scope, images *Node) *Node, rows, cols, channels int) (n int) {
	backend, err := gobackend.New("")
	if err != nil {
		panic(err)
	}
	defer backend.Finalize()
	store := model.NewStore()
	store.SetParam("/"+abstract, true)
	images := Parameter(NewGraph(backend, "count"), "images", shapes.Make(dtypes.Float32, 1, rows, cols, channels))
	logits(store.RootScope(), images)
	for v := range store.IterVariables() {
		if v.Trainable {
			n += v.Shape().Size()
		}
	}
	return n
}

// The scopes of a training's store.
const (
	ModelScope   = "vit" // of the model
	AverageScope = "ema" // of the moving averages of its weights
)

// ErrLoader refuses a store with a loader, which could answer CreateVariable with a value of its own.
var ErrLoader = errors.New("the store has a loader attached: load into one without")

// Create creates variables by their paths below a scope, before a model is built there. None may exist.
func Create(scope *model.Scope, values map[string]*tensors.Tensor) error {
	store := scope.Store()
	if store.Loader() != nil {
		return ErrLoader
	}
	paths := slices.Sorted(maps.Keys(values))
	for _, path := range paths {
		if full := model.JoinPath(scope.Scope(), path); store.GetVariable(full) != nil {
			return fmt.Errorf("the store has a variable %q already: load before the model is built", full)
		}
	}
	for _, path := range paths {
		if _, err := store.CreateVariable(model.JoinPath(scope.Scope(), path), values[path]); err != nil {
			return fmt.Errorf("variable %q: %w", path, err)
		}
	}
	return nil
}
