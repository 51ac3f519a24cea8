// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/nn"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The expected values are GoMLX's plain functions, differentiated by autodiff.
func TestValuesAndGradientsAreThoseOfThePlainFunctions(t *testing.T) {
	for _, c := range []struct {
		name         string
		kernel, want func(x *graph.Node) *graph.Node
	}{
		{"gelu", Gelu, activation.Gelu},
		{"softmax", func(x *graph.Node) *graph.Node { return ScaledSoftmax(x, 0.3) },
			func(x *graph.Node) *graph.Node { return graph.Softmax(graph.MulScalar(x, 0.3), -1) }},
		{"normalize", func(x *graph.Node) *graph.Node { return Normalize(x, 1e-3) },
			func(x *graph.Node) *graph.Node { return nn.LayerNorm(x, []int{-1}, 1e-3, nil, nil, nil) }},
	} {
		reference, tolerances := dtypes.Float64, map[dtypes.DType]float64{dtypes.Float64: 1e-13, dtypes.Float32: 1e-6}
		if gomlxtest.Backend().Name() == "onnxruntime" { // it has no error function in float64
			reference, tolerances = dtypes.Float32, map[dtypes.DType]float64{dtypes.Float32: 1e-6}
		}
		for dtype, tolerance := range tolerances {
			run := func(dtype dtypes.DType, f func(x *graph.Node) *graph.Node) [][]float64 {
				return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
					x := graph.ConvertDType(graph.MulScalar(in[0], 3), dtype)                // [5, 7, 11]
					dy := graph.ConvertDType(graph.ReduceSum(graph.Square(in[1]), 0), dtype) // [5, 7, 11]
					y := f(graph.MulScalar(x, 1))
					// Two uses in the graph: their gradients are summed, and the graph continues after them.
					loss := graph.ReduceAllSum(graph.Mul(graph.Mul(y, f(graph.Sin(x))), dy))
					return []*graph.Node{y, graph.Gradient(loss, x)[0]}
				}, gomlxtest.Noise(5, 7, 11), gomlxtest.Noise(2, 5, 7, 11))
			}
			want, got := run(reference, c.want), run(dtype, c.kernel)
			gomlxtest.Near(t, c.name+" value "+dtype.String(), got[0], want[0], tolerance)
			gomlxtest.Near(t, c.name+" gradient "+dtype.String(), got[1], want[1], tolerance)
		}
	}
}

// Φ(0) = ½; far below 0 the value underflows, far above Φ is 1.
func TestTheGradientOfGeluIsRightAtZeroAndFarAway(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return graph.Gradient(graph.ReduceAllSum(Gelu(in[0])), in[0])
	}, []float32{0, -40, 40, 1e-30, -1e-30, -1e-44})
	gomlxtest.NearAbs(t, "gradient", []float32{float32(got[0][0]), float32(got[0][1]), float32(got[0][2]),
		float32(got[0][3]), float32(got[0][4])}, []float64{0.5, 0, 1, 0.5, 0.5}, 1e-6)
	if last := got[0][5]; last < 0.2 || last > 1 { // of a number of three bits
		t.Errorf("%g next to 0", last)
	}
}

// The expected values are autodiff's of the plain functions. One of the values is unused.
func TestSeveralHandsTheGradientOfEachValueToAllInputs(t *testing.T) {
	plain := func(x, y *graph.Node) []*graph.Node {
		return []*graph.Node{graph.Mul(x, y), graph.ReduceAllSum(graph.Sin(x)), graph.Exp(y)}
	}
	several := func(x, y *graph.Node) []*graph.Node {
		return Several([]*graph.Node{x, y}, 3, func() []*graph.Node { return plain(x, y) },
			func(i int, dy *graph.Node) []*graph.Node {
				if i == 0 {
					return []*graph.Node{graph.Mul(dy, y), graph.ReduceAllSum(graph.Mul(dy, x))}
				}
				return []*graph.Node{graph.Mul(dy, graph.Cos(x)), graph.ZerosLike(y)}
			})
	}
	run := func(f func(x, y *graph.Node) []*graph.Node) [][]float64 {
		return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
			x, y := graph.Sin(in[0]), graph.ReduceAllSum(graph.Sin(in[1])) // [5, 7], scalar
			values := f(x, y)[:2]
			loss := graph.ReduceAllSum(graph.Mul(graph.Square(values[0]), values[1]))
			return append(graph.Gradient(loss, in...), values...)
		}, gomlxtest.Noise(5, 7), gomlxtest.Noise(3))
	}
	want := run(plain)
	for i, got := range run(several) {
		gomlxtest.Near(t, fmt.Sprint("output ", i), got, want[i], 1e-6)
	}
}

// Three sums; the gradient of each is d/dx of Σ (i+2)·xᵢ² for its own i alone.
func TestEachGradientOfAGraphIsOfTheElementsOfItsOwnLoss(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*graph.Node) (out []*graph.Node) {
		for i, part := range Unstack(in[0]) {
			loss := graph.ReduceAllSum(graph.MulScalar(graph.Square(part), float64(i+2)))
			out = append(out, graph.Gradient(loss, in[0])...)
		}
		return out
	}, [][]float32{{1, -2}, {3, 5}, {7, 11}})
	gomlxtest.NearAbs(t, "the first", got[0], []float64{4, -8, 0, 0, 0, 0}, 0)
	gomlxtest.NearAbs(t, "the second", got[1], []float64{0, 0, 18, 30, 0, 0}, 0)
	gomlxtest.NearAbs(t, "the third", got[2], []float64{0, 0, 0, 0, 56, 88}, 0)
}
