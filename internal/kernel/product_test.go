// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Sums of 16-bit products are rounded once: by at most the last of the 8 bits, whatever their length.
func TestGradientsOfHalfPrecisionAccumulateInFloat32(t *testing.T) {
	const n, in, out = 2003, 7, 11
	var inputs []*tensors.Tensor
	for _, dims := range [][]int{{n, in}, {in, out}, {out}, {n, out}} {
		inputs = append(inputs, gomlxtest.Noise(dims...))
	}
	x, w, _, dy := sixtyFourths(inputs[0]), sixtyFourths(inputs[1]), sixtyFourths(inputs[2]), sixtyFourths(inputs[3])
	got := gomlxtest.Run(t, func(nodes []*graph.Node) []*graph.Node {
		var half []*graph.Node
		for _, node := range nodes {
			half = append(half, graph.ConvertDType(node, dtypes.BFloat16))
		}
		y := Dense(half[0], half[1], half[2])
		grads := graph.Gradient(graph.ReduceAllSum(graph.ConvertDType(graph.Mul(y, half[3]), dtypes.Float32)), half[:3]...)
		for i := range grads {
			grads[i] = graph.ConvertDType(grads[i], dtypes.Float32)
		}
		return grads
	}, inputs[0], inputs[1], inputs[2], inputs[3])
	want := [][]float64{make([]float64, n*in), make([]float64, in*out), make([]float64, out)}
	for row := range n {
		for o := range out {
			g := dy[row*out+o]
			want[2][o] += g
			for i := range in {
				want[0][row*in+i] += g * w[i*out+o]
				want[1][i*out+o] += g * x[row*in+i]
			}
		}
	}
	for k, name := range []string{"x", "weights", "biases"} {
		for i, exact := range want[k] {
			if !(math.Abs(got[k][i]-exact) <= math.Abs(exact)/128+1e-4) {
				t.Errorf("%s: at %d got %g, want %g", name, i, got[k][i], exact)
				break
			}
		}
	}
}

// sixtyFourths rounds numbers in ±1 to multiples of 1/64, which have 7 bits, and returns them.
func sixtyFourths(of *tensors.Tensor) (numbers []float64) {
	tensors.MustMutableFlatData(of, func(flat []float32) {
		for i, v := range flat {
			flat[i] = float32(math.Round(float64(v)*64) / 64)
			numbers = append(numbers, float64(flat[i]))
		}
	})
	return numbers
}

// On the backends that benefit, every product of a step contracts the last axis of one factor and the next-to-last of
// the other, and an addition's gradient contains no sum.
func TestWrittenGradientsArePlainProducts(t *testing.T) {
	if gomlxtest.Backend().Name() == "onnxruntime" {
		t.Skip("autodiff's gradients are kept there")
	}
	gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		a, b, row := in[0], in[1], in[2]
		for name, y := range map[string]*graph.Node{
			"matrices": Product(a, b), "stacks": Product(graph.InsertAxes(a, 0, 0), graph.InsertAxes(b, 0, 0)),
			"tall": Product(graph.Concatenate([]*graph.Node{a, a, a}, 0), b), "rows": addRow(Product(a, b), row),
		} {
			for i, grad := range graph.Gradient(graph.ReduceAllSum(graph.Square(y)), a, b, row) {
				if name != "rows" && i == 2 {
					continue
				}
				if n := onlyPlainProducts(t, name, grad, map[*graph.Node]bool{}); n == 0 {
					t.Errorf("%s: the gradient of input %d contains no product", name, i)
				}
			}
		}
		return in
	}, gomlxtest.Noise(5, 7), gomlxtest.Noise(7, 11), gomlxtest.Noise(11))
}

// onlyPlainProducts counts the products that x depends on, each of which must be plain.
func onlyPlainProducts(t *testing.T, name string, x *graph.Node, seen map[*graph.Node]bool) (n int) {
	if seen[x] {
		return 0
	}
	seen[x] = true
	if x.Type() == graph.NodeTypeDotGeneral {
		n = 1
		last := x.Inputs()[0].Rank() - 1
		text := x.String()
		if !strings.Contains(text, fmt.Sprintf("lhsContractingAxes=[%d]", last)) ||
			!strings.Contains(text, fmt.Sprintf("rhsContractingAxes=[%d]", last-1)) {
			t.Errorf("%s: %s contracts other axes than %d and %d", name, text, last, last-1)
		}
	}
	if x.Type() == graph.NodeTypeReduceSum {
		t.Errorf("%s: %s in a gradient", name, x)
	}
	for _, input := range x.Inputs() {
		n += onlyPlainProducts(t, name, input, seen)
	}
	return n
}

// Multiples of 1/64 in ±1 and their sums are exact in float32; in 16 bits the sums are not.
func TestRowsOfABatchGetTheSumOfItsGradients(t *testing.T) {
	const batch, rows, width = 307, 3, 5
	noise := func(dims ...int) (*tensors.Tensor, []float64) {
		of := gomlxtest.Noise(dims...)
		return of, sixtyFourths(of)
	}
	x, _ := noise(1, rows, width)
	weights, dy := noise(batch, rows, width)
	want := make([]float64, rows*width)
	for i, v := range dy {
		want[i%len(want)] += v
	}
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
			y := Repeat(in[0], batch, dtype)
			back := graph.ConvertDType(graph.Mul(y, graph.ConvertDType(in[1], dtype)), dtypes.Float32)
			return append(graph.Gradient(graph.ReduceAllSum(back), in[0]),
				graph.Sub(graph.ConvertDType(y, dtypes.Float32), in[0]))
		}, x, weights)
		gomlxtest.NearAbs(t, dtype.String()+" gradient", got[0], want, 0)
		gomlxtest.NearAbs(t, dtype.String()+" difference from x", got[1], make([]float64, batch*rows*width), 0)
	}
}

// A zero factor hides the input from the output: its gradient is zero, not NaN.
func TestRescaleByZeroIsFinite(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		m := graph.MulScalar(in[1], 0)
		return graph.Gradient(graph.ReduceAllSum(Rescale(in[0], m)), in[0], m)
	}, gomlxtest.Noise(3, 5), gomlxtest.Noise(1, 5))
	for i := range got {
		gomlxtest.Near(t, fmt.Sprint("gradient ", i), got[i], make([]float64, len(got[i])), 0)
	}
}
