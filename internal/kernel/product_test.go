// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"testing"
	"weak"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The product of GoMLX, differentiated by it in float64, is the source of the expected values.
func TestProductsAndTheirGradientsAreThoseOfMatMul(t *testing.T) {
	for _, c := range []struct{ a, b []int }{
		{[]int{5, 7}, []int{7, 11}}, {[]int{7, 7}, []int{7, 7}}, {[]int{2, 3, 5, 7}, []int{2, 3, 7, 11}},
		{[]int{31, 7}, []int{7, 3}}, {[]int{2, 31, 7}, []int{2, 7, 3}}, // whose first factor is the largest of all
	} {
		run := func(dtype dtypes.DType, product func(a, b *graph.Node) *graph.Node) [][]float64 {
			return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
				a, b := graph.ConvertDType(in[0], dtype), graph.Sin(graph.ConvertDType(in[1], dtype))
				y := product(graph.Sin(a), b)
				grads := graph.Gradient(graph.ReduceAllSum(graph.Sin(y)), a, b)
				return append(grads, y)
			}, gomlxtest.Noise(c.a...), gomlxtest.Noise(c.b...))
		}
		want := run(dtypes.Float64, graph.MatMul)
		for dtype, tolerance := range map[dtypes.DType]float64{dtypes.Float64: 1e-14, dtypes.Float32: 1e-6} {
			for i, got := range run(dtype, Product) {
				gomlxtest.Near(t, fmt.Sprint(c, dtype, " output ", i), got, want[i], tolerance)
			}
		}
	}
}

func TestDenseIsAProductPlusBiases(t *testing.T) {
	run := func(dense func(x, w, b *graph.Node) *graph.Node) [][]float64 {
		return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
			x, w, b := graph.Sin(in[0]), graph.Sin(in[1]), in[2]
			y := graph.Add(dense(x, w, b), dense(graph.Square(x), w, nil)) // [2, 3, 7]
			return append(graph.Gradient(graph.ReduceAllSum(graph.Sin(y)), in...), y)
		}, gomlxtest.Noise(2, 3, 5), gomlxtest.Noise(5, 7), gomlxtest.Noise(7))
	}
	want := run(func(x, w, b *graph.Node) *graph.Node {
		y := graph.Einsum("bti,io->bto", x, w)
		if b != nil {
			y = graph.Add(y, graph.Reshape(b, 1, 1, -1))
		}
		return y
	})
	for i, got := range run(Dense) {
		gomlxtest.Near(t, fmt.Sprint("output ", i), got, want[i], 1e-6)
	}
}

func TestAffineIsAProductAndASumOfRows(t *testing.T) {
	run := func(affine func(x, gain, offset *graph.Node) *graph.Node) [][]float64 {
		return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
			y := affine(graph.Sin(in[0]), in[1], in[2]) // [2, 3, 7]
			return append(graph.Gradient(graph.ReduceAllSum(graph.Sin(y)), in...), y)
		}, gomlxtest.Noise(2, 3, 7), gomlxtest.Noise(7), gomlxtest.Noise(7))
	}
	want := run(func(x, gain, offset *graph.Node) *graph.Node {
		return graph.Add(graph.Mul(x, graph.Reshape(gain, 1, 1, 7)), graph.Reshape(offset, 1, 1, 7))
	})
	for i, got := range run(Affine) {
		gomlxtest.Near(t, fmt.Sprint("output ", i), got, want[i], 1e-6)
	}
}

// Products of the plain kind are what makes a step fast, and only nodes known as such get them.
func TestGradientsOfProductsContractTheLastAxisOfOneAndTheLastButOneOfTheOther(t *testing.T) {
	gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		for _, y := range []*graph.Node{
			Product(in[0], in[1]), Product(graph.InsertAxes(in[0], 0, 0), graph.InsertAxes(in[1], 0, 0)),
		} {
			if _, found := written.Load(weak.Make(y)); !found || y.Type() != graph.NodeTypeDotGeneral {
				t.Errorf("%s is not known as a product", y)
			}
			for _, grad := range graph.Gradient(graph.ReduceAllSum(y), y.Inputs()...) {
				if _, found := written.Load(weak.Make(grad)); !found {
					t.Errorf("%s, a gradient of %s, is not known as a product", grad, y)
				}
			}
		}
		return in
	}, gomlxtest.Noise(5, 7), gomlxtest.Noise(7, 11))
}
