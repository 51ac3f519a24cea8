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

// The expected values are GoMLX's product, differentiated in float64.
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

// The expected values are autodiff's of the plain forms. Channels 2i and 2i+1 are a pair of Rotate; the batch of the
// factors of Rescale is 1, with the explicit gradient, or the input's, without it.
func TestFunctionsAndTheirGradientsAreThoseOfPlainForms(t *testing.T) {
	type function = func(in []*graph.Node) *graph.Node
	rotated := func(rotate func(x, cos, sin *graph.Node, quarter func(*graph.Node) *graph.Node) *graph.Node) function {
		quarter := func(x *graph.Node) *graph.Node { // (a, b) -> (-b, a)
			pairs := graph.Reshape(x, -1, 2)
			a, b := graph.SliceAxis(pairs, 1, graph.AxisElem(0)), graph.SliceAxis(pairs, 1, graph.AxisElem(1))
			return graph.Reshape(graph.Concatenate([]*graph.Node{graph.Neg(b), a}, 1), x.Shape().Dimensions...)
		}
		return func(in []*graph.Node) *graph.Node {
			d := in[1].Shape().Dimensions
			both := graph.Reshape(graph.Stack([]*graph.Node{in[1], in[1]}, -1), d[0], d[1], d[2], 6) // of a pair
			return rotate(in[0], graph.Cos(both), graph.Sin(both), quarter)
		}
	}
	rotate := rotated(func(x, cos, sin *graph.Node, quarter func(*graph.Node) *graph.Node) *graph.Node {
		return graph.Add(graph.Mul(x, cos), graph.Mul(quarter(x), sin))
	})
	rescale := func(in []*graph.Node) *graph.Node { return Rescale(in[0], in[1]) }
	product := func(in []*graph.Node) *graph.Node { return graph.Mul(in[0], in[1]) }
	crop := func(axis, begin, end int) (ours, plain function) {
		return func(in []*graph.Node) *graph.Node { return Crop(in[0], axis, begin, end) },
			func(in []*graph.Node) *graph.Node { return graph.SliceAxis(in[0], axis, graph.AxisRange(begin, end)) }
	}
	inside, plainInside := crop(2, 1, 5)
	last, plainLast := crop(1, 3, 5)
	for name, c := range map[string]struct {
		ours, plain function
		dims        [][]int
	}{
		"dense": {func(in []*graph.Node) *graph.Node {
			return graph.Add(Dense(in[0], in[1], in[2]), Dense(graph.Square(in[0]), in[1], nil))
		}, func(in []*graph.Node) *graph.Node {
			x := graph.Add(in[0], graph.Square(in[0]))
			return graph.Add(graph.Einsum("bti,io->bto", x, in[1]), graph.Reshape(in[2], 1, 1, -1))
		}, [][]int{{2, 3, 5}, {5, 7}, {7}}},
		"affine": {func(in []*graph.Node) *graph.Node { return Affine(in[0], in[1], in[2]) },
			func(in []*graph.Node) *graph.Node {
				return graph.Add(graph.Mul(in[0], graph.Reshape(in[1], 1, 1, 7)), graph.Reshape(in[2], 1, 1, 7))
			}, [][]int{{2, 3, 7}, {7}, {7}}},
		"rescale by one image's factors": {rescale, product, [][]int{{3, 5, 7}, {1, 5, 7}}},
		"rescale":                        {rescale, product, [][]int{{3, 5, 7}, {3, 5, 7}}},
		"rotate all images alike":        {rotated(Rotate), rotate, [][]int{{3, 5, 7, 6}, {1, 5, 7, 3}}},
		"rotate all heads alike":         {rotated(Rotate), rotate, [][]int{{3, 5, 7, 6}, {3, 5, 1, 3}}},
		"crop":                           {inside, plainInside, [][]int{{2, 5, 7, 3}}},
		"crop the last":                  {last, plainLast, [][]int{{2, 5, 7, 3}}},
		"convolution": {func(in []*graph.Node) *graph.Node { return Conv3x3(in[0], in[1], nil) },
			func(in []*graph.Node) *graph.Node { return graph.Convolve(in[0], in[1]).PadSame().Done() },
			[][]int{{2, 5, 7, 3}, {3, 3, 3, 4}}},
	} {
		if gomlxtest.Backend().Name() == "onnxruntime" && strings.HasPrefix(name, "c") {
			continue // it has no gradient of a slice
		}
		var inputs []any
		for _, dims := range c.dims {
			inputs = append(inputs, gomlxtest.Noise(dims...))
		}
		run := func(of function) [][]float64 {
			return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
				sines := make([]*graph.Node, len(in)) // the graph goes on before and after the function
				for i, x := range in {
					sines[i] = graph.Sin(x)
				}
				y := of(sines)
				return append(graph.Gradient(graph.ReduceAllSum(graph.Sin(y)), in...), y)
			}, inputs...)
		}
		want := run(c.plain)
		for i, got := range run(c.ours) {
			gomlxtest.Near(t, fmt.Sprint(name, " output ", i), got, want[i], 1e-6)
		}
	}
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
