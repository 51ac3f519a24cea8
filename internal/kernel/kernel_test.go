// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/nn"
	"k8s.io/klog/v2"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// function is a function of one or several inputs, tripled one of three times its input.
type function = func(in []*graph.Node) *graph.Node

func tripled(f func(x *graph.Node) *graph.Node) function {
	return func(in []*graph.Node) *graph.Node { return f(graph.MulScalar(in[0], 3)) }
}

// The expected values are those of plain functions in float64, differentiated by autodiff. Channels 2i and 2i+1 are a
// pair of Rotate; the batch of the factors of Rescale is 1, with the explicit gradient, or the input's, without it.
func TestValuesAndGradientsAreThoseOfPlainFunctions(t *testing.T) {
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
	product := func(in []*graph.Node) *graph.Node { return Product(in[0], in[1]) }
	matMul := func(in []*graph.Node) *graph.Node { return graph.MatMul(in[0], in[1]) }
	rescale := func(in []*graph.Node) *graph.Node { return Rescale(in[0], in[1]) }
	mul := func(in []*graph.Node) *graph.Node { return graph.Mul(in[0], in[1]) }
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
		"gelu": {tripled(Gelu), tripled(activation.Gelu), [][]int{{5, 7, 11}}},
		"softmax": {tripled(func(x *graph.Node) *graph.Node { return ScaledSoftmax(x, 0.3) }),
			tripled(func(x *graph.Node) *graph.Node { return graph.Softmax(graph.MulScalar(x, 0.3), -1) }),
			[][]int{{5, 7, 11}}},
		"normalize": {tripled(func(x *graph.Node) *graph.Node { return Normalize(x, 1e-3) }),
			tripled(func(x *graph.Node) *graph.Node { return nn.LayerNorm(x, []int{-1}, 1e-3, nil, nil, nil) }),
			[][]int{{5, 7, 11}}},
		"product":        {product, matMul, [][]int{{5, 7}, {7, 11}}},
		"square product": {product, matMul, [][]int{{7, 7}, {7, 7}}},
		"products":       {product, matMul, [][]int{{2, 3, 5, 7}, {2, 3, 7, 11}}},
		"tall product":   {product, matMul, [][]int{{31, 7}, {7, 3}}}, // the first factor is the largest of all
		"products, tall": {product, matMul, [][]int{{2, 31, 7}, {2, 7, 3}}},
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
		"rescale by one image's factors": {rescale, mul, [][]int{{3, 5, 7}, {1, 5, 7}}},
		"rescale":                        {rescale, mul, [][]int{{3, 5, 7}, {3, 5, 7}}},
		"rotate all images alike":        {rotated(Rotate), rotate, [][]int{{3, 5, 7, 6}, {1, 5, 7, 3}}},
		"rotate all heads alike":         {rotated(Rotate), rotate, [][]int{{3, 5, 7, 6}, {3, 5, 1, 3}}},
		"crop":                           {inside, plainInside, [][]int{{2, 5, 7, 3}}},
		"crop the last":                  {last, plainLast, [][]int{{2, 5, 7, 3}}},
		"convolution": {func(in []*graph.Node) *graph.Node { return Conv3x3(in[0], in[1], nil) },
			func(in []*graph.Node) *graph.Node { return graph.Convolve(in[0], in[1]).PadSame().Done() },
			[][]int{{2, 5, 7, 3}, {3, 3, 3, 4}}},
	} {
		reference, tolerances := dtypes.Float64, map[dtypes.DType]float64{dtypes.Float64: 1e-14, dtypes.Float32: 1e-6}
		if gomlxtest.Backend().Name() == "onnxruntime" { // it has no error function in float64, nor a gradient of a slice
			if strings.HasPrefix(name, "c") {
				continue
			}
			reference, tolerances = dtypes.Float32, map[dtypes.DType]float64{dtypes.Float32: 1e-6}
		}
		var inputs []any
		for _, dims := range c.dims {
			inputs = append(inputs, gomlxtest.Noise(dims...))
		}
		run := func(dtype dtypes.DType, of function) [][]float64 {
			return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
				sines := make([]*graph.Node, len(in))
				for i := range in {
					in[i] = graph.ConvertDType(in[i], dtype)
					sines[i] = graph.Sin(in[i])
				}
				y := of(sines) // the graph goes on before and after it, and the gradients of two uses are summed
				loss := graph.ReduceAllSum(graph.Mul(graph.Sin(y), of(in)))
				return append(graph.Gradient(loss, in...), y)
			}, inputs...)
		}
		want := run(reference, c.plain)
		for dtype, tolerance := range tolerances {
			for i, got := range run(dtype, c.ours) {
				gomlxtest.Near(t, fmt.Sprint(name, ", ", dtype, ", output ", i), got, want[i], tolerance)
			}
		}
	}
}

// Φ(0) = ½; far below 0 the value underflows, far above Φ is 1.
func TestTheGradientOfGeluIsRightAtZeroAndFarAway(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return graph.Gradient(graph.ReduceAllSum(Gelu(in[0])), in[0])
	}, []float32{0, -40, 40, 1e-30, -1e-30, -1e-44})
	gomlxtest.NearAbs(t, "gradient", got[0][:5], []float64{0.5, 0, 1, 0.5, 0.5}, 1e-6)
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
	gomlxtest.NearAbs(t, "gradients", slices.Concat(got...), []float64{4, -8, 0, 0, 0, 0, 0, 0, 18, 30, 0, 0, 0, 0, 0, 0,
		56, 88}, 0)
}

// Sums of 16-bit products are rounded once: by at most the last of the 8 bits, whatever their length.
func TestGradientsOfHalfPrecisionAccumulateInFloat32(t *testing.T) {
	const n, in, out = 2003, 7, 11
	var inputs []any
	for _, dims := range [][]int{{n, in}, {in, out}, {out}, {n, out}} {
		input, _ := sixtyFourths(dims...)
		inputs = append(inputs, input)
	}
	run := func(dtype dtypes.DType, dense func(x, weights, biases *graph.Node) *graph.Node) [][]float64 {
		return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
			for i := range in {
				in[i] = graph.ConvertDType(in[i], dtype)
			}
			y := dense(in[0], in[1], in[2])
			grads := graph.Gradient(graph.ReduceAllSum(graph.ConvertDType(graph.Mul(y, in[3]), dtypes.Float32)), in[:3]...)
			for i := range grads {
				grads[i] = graph.ConvertDType(grads[i], dtypes.Float32)
			}
			return grads
		}, inputs...)
	}
	want := run(dtypes.Float64, func(x, weights, biases *graph.Node) *graph.Node {
		return graph.Add(graph.MatMul(x, weights), graph.InsertAxes(biases, 0))
	})
	for k, got := range run(dtypes.BFloat16, Dense) {
		for i, exact := range want[k] {
			if !(math.Abs(got[i]-exact) <= math.Abs(exact)/128+1e-4) {
				t.Errorf("gradient of input %d: at %d got %g, want %g", k, i, got[i], exact)
				break
			}
		}
	}
}

// sixtyFourths returns noise in ±1 of multiples of 1/64, which have 7 bits, and its numbers.
func sixtyFourths(dims ...int) (noise *tensors.Tensor, numbers []float64) {
	noise = gomlxtest.Noise(dims...)
	tensors.MustMutableFlatData(noise, func(flat []float32) {
		for i, v := range flat {
			flat[i] = float32(math.Round(float64(v)*64) / 64)
			numbers = append(numbers, float64(flat[i]))
		}
	})
	return noise, numbers
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
				products, seen := 0, map[*graph.Node]bool{}
				for left := []*graph.Node{grad}; len(left) > 0; left = left[1:] {
					x := left[0]
					if seen[x] {
						continue
					}
					seen[x], left = true, append(left, x.Inputs()...)
					switch x.Type() {
					case graph.NodeTypeReduceSum:
						t.Errorf("%s: %s in a gradient", name, x)
					case graph.NodeTypeDotGeneral:
						products++
						last := x.Inputs()[0].Rank() - 1
						if text := x.String(); !strings.Contains(text, fmt.Sprintf("lhsContractingAxes=[%d]", last)) ||
							!strings.Contains(text, fmt.Sprintf("rhsContractingAxes=[%d]", last-1)) {
							t.Errorf("%s: %s contracts other axes than %d and %d", name, text, last, last-1)
						}
					}
				}
				if products == 0 {
					t.Errorf("%s: the gradient of input %d contains no product", name, i)
				}
			}
		}
		return in
	}, gomlxtest.Noise(5, 7), gomlxtest.Noise(7, 11), gomlxtest.Noise(11))
}

// Multiples of 1/64 in ±1 and their sums are exact in float32; in 16 bits the sums are not.
func TestRowsOfABatchGetTheSumOfItsGradients(t *testing.T) {
	const batch, rows, width = 307, 3, 5
	x, _ := sixtyFourths(1, rows, width)
	weights, dy := sixtyFourths(batch, rows, width)
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

// The program changes two of three variables: XLA reports their 4·(7·11 + 13) bytes as aliased.
func TestXLAOverwritesTheVariablesThatAProgramChanges(t *testing.T) {
	backend := gomlxtest.Backend()
	if backend.Name() != "xla" {
		t.Skip("only XLA has the attribute")
	}
	store := model.NewStore()
	create := func(name string, dims ...int) *model.Variable {
		return gomlxtest.Must(store.CreateVariable("/"+name, tensors.FromShape(shapes.Make(dtypes.Float32, dims...))))(t)
	}
	b, fixed, a := create("b", 7, 11), create("fixed", 5), create("a", 13)
	exec := gomlxtest.Must(model.NewExec(backend, store, func(_ *model.Scope, in []*graph.Node) []*graph.Node {
		sum := graph.ReduceAllSum(fixed.NodeValue(in[0]))
		a.SetNodeValue(graph.Add(graph.AddScalar(a.NodeValue(in[0]), 2), in[0]))
		b.SetNodeValue(graph.Add(graph.AddScalar(b.NodeValue(in[0]), 3), in[0]))
		UpdateInPlace(store, in[0].Graph())
		return []*graph.Node{sum}
	}))(t)
	log := logOf(t, func() {
		for range 3 {
			gomlxtest.Must(exec.Call(float32(1)))(t)
		}
	})
	if !strings.Contains(log, "Aliases:360 ") {
		t.Errorf("XLA does not alias 4·(7·11 + 13) = 360 bytes; it logged\n%s", log)
	}
	for v, want := range map[*model.Variable]float64{a: 9, b: 12, fixed: 0} {
		got := gomlxtest.Values(t, v.MustValue())
		gomlxtest.NearAbs(t, v.Path()+" after three steps", got, slices.Repeat([]float64{want}, len(got)), 0)
	}
}

// logOf returns the upstream log while f runs: programs and their memory.
func logOf(t *testing.T, f func()) string {
	var log bytes.Buffer
	defer klog.CaptureState().Restore()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"v": "2", "logtostderr": "false", "stderrthreshold": "FATAL"} {
		gomlxtest.NoError(t, flags.Set(name, value))
	}
	klog.SetOutput(&log)
	f()
	klog.Flush()
	return log.String()
}
