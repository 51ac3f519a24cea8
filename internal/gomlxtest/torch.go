// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package gomlxtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
)

// Torch converts the tensors of a PyTorch model, one file of a fixture, to the paths and layouts of our model.
type Torch struct {
	Store   *model.Store
	Tensors map[string]fixtures.Tensor

	t     testing.TB
	scope string // of our model, as in "/vit/"
	used  map[string]bool
}

// LoadTorch reads a file of a fixture for a model in the given scope of a new store.
func LoadTorch(t testing.TB, set, file, scope string) *Torch {
	t.Helper()
	return &Torch{Store: model.NewStore(), Tensors: fixtures.Tensors(t, set, file), t: t, scope: scope,
		used: map[string]bool{}}
}

// Get returns a tensor that must exist.
func (f *Torch) Get(name string) fixtures.Tensor {
	f.t.Helper()
	x, ok := f.Tensors[name]
	if !ok {
		f.t.Fatalf("the fixture has no tensor %q", name)
	}
	f.used[name] = true
	return x
}

// AllUsed fails the test for each unused tensor below prefix, except those below an exception.
func (f *Torch) AllUsed(prefix string, except ...string) {
	f.t.Helper()
	for name := range f.Tensors {
		excepted := slices.ContainsFunc(except, func(e string) bool { return strings.HasPrefix(name, e) })
		if strings.HasPrefix(name, prefix) && !f.used[name] && !excepted {
			f.t.Errorf("tensor %q of the fixture is not mapped", name)
		}
	}
}

// Set creates the float32 variable at a path below the scope.
func (f *Torch) Set(path string, data []float64, dims ...int) {
	f.t.Helper()
	x := Input(fixtures.Tensor{Data: data, Shape: dims})
	Must(f.Store.CreateVariable(f.scope+path, x))(f.t)
}

// Vector sets a tensor at path that is one-dimensional in our model.
func (f *Torch) Vector(path, name string) {
	f.t.Helper()
	x := f.Get(name)
	f.Set(path, x.Data, len(x.Data))
}

// Linear sets a layer at path: PyTorch's weight [out, in] or [out, in, 1, 1] and bias [out], rows begin to end, or all
// for 0, 0. Without the name of a bias it has none.
func (f *Torch) Linear(path, weight, bias string, begin, end int) {
	f.t.Helper()
	w := f.Get(weight)
	in := w.Shape[1]
	if end == 0 {
		end = w.Shape[0]
	}
	f.Set(path+"/weights", Reversed(w.Data[begin*in:end*in], end-begin, 1, in), in, end-begin)
	if bias != "" {
		f.Set(path+"/biases", f.Get(bias).Data[begin:end], end-begin)
	}
}

// Layer is Linear for all rows of NAME.weight and NAME.bias.
func (f *Torch) Layer(path, name string) { f.Linear(path, name+".weight", name+".bias", 0, 0) }

// Norm sets the gain and the offset of a normalization at path.
func (f *Torch) Norm(path, name string) {
	f.Vector(path+"/gain", name+".weight")
	f.Vector(path+"/offset", name+".bias")
}

// Reversed returns x [a, b, c] as [c, b, a]; a matrix has b = 1.
func Reversed(x []float64, a, b, c int) []float64 {
	out := make([]float64, 0, len(x))
	for k := range c {
		for j := range b {
			for i := range a {
				out = append(out, x[(i*b+j)*c+k])
			}
		}
	}
	return out
}

// Input returns a tensor of a fixture as a graph's input: float32.
func Input(x fixtures.Tensor) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(x.Float32(), x.Shape...)
}
