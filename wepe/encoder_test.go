// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// float64Runs reports whether the test backend evaluates P in float64.
func float64Runs(t *testing.T) bool {
	t.Helper()
	return exceptions.TryCatch[error](func() {
		MustNewExec(gomlxtest.Backend(), func(x, y, omega *Node) *Node {
			p, _ := P(ComplexNode{Re: x, Im: y}, omega, omega)
			return p.Re
		}).MustCall(0.3, 0.7, 2.0)
	}) == nil
}

var run = gomlxtest.RunModel

// onlyIn adapts a graph without inputs to run, whose one input, of any value, only identifies the graph.
func onlyIn(build func(s *model.Scope, g *Graph) []*Node) func(*model.Scope, []*Node) []*Node {
	return func(s *model.Scope, in []*Node) []*Node { return build(s, in[0].Graph()) }
}

// gradients are those of a loss by all trainable variables, with their paths.
func gradients(s *model.Scope, loss *Node) (paths []string, byVariable []*Node) {
	var values []*Node
	for v := range s.IterVariables() {
		if v.Trainable {
			paths, values = append(paths, v.Path()), append(values, v.NodeValue(loss.Graph()))
		}
	}
	return paths, Gradient(loss, values...)
}

func TestSoftplus_EqualsTheClosedForm(t *testing.T) {
	raws := []float32{-80, -15, -1.82118, 0, 2.5466, 15, 80, 1000}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		y := softplus(in[0])
		return []*Node{y, Gradient(ReduceAllSum(y), in[0])[0]}
	}, raws)
	for i, raw := range raws {
		x := float64(raw)
		want, slope := max(x, math.Log1p(math.Exp(min(x, 700)))), 1/(1+math.Exp(-x)) // mathematics.md (6.4)
		// Absolute below 1: ONNX Runtime's Log1p is log(1+x).
		if !(math.Abs(got[0][i]-want) <= 1.2e-7*max(1, want)) || !(math.Abs(got[1][i]-slope) <= 1.2e-7) {
			t.Errorf("softplus(%g) = %g with slope %g, want %g and %g", x, got[0][i], got[1][i], want, slope)
		}
	}
	// mathematics.md (6.6): the raw value of the square lattice, to its printed digits.
	is.Near(t, "softplus⁻¹(ω1)", softplusInverse(weierstrass.OmegaSquare), 2.5466, 5e-5)
}

// The encoder of these tests: 3×5 patches behind 2 prefix tokens, width 7.
const rows, cols, prefix, width, positions = 3, 5, 2, 7, 17

func testEncoder(s *model.Scope) *encoder {
	return New(s, rows, cols, width).WithPrefix(prefix).encoder()
}

// ramp fills a shape with different numbers.
func ramp(g *Graph, dims ...int) *Node {
	return MulScalar(IotaFull(g, shapes.Make(dtypes.Float32, dims...)), 0.01)
}

func TestPreEncode_AddsEncodeToAllTokens(t *testing.T) {
	for i, dtype := range []dtypes.DType{dtypes.Float32, dtypes.Float32, dtypes.BFloat16, dtypes.Float16} {
		got := run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
			e, x := testEncoder(s), ConvertDType(ramp(g, 2, positions, width), dtype)
			indices := []*Node{nil, Iota(g, shapes.Make(dtypes.Int32, positions), 0)}[min(i, 1)]
			out, want := e.PreEncode(x, indices, -2), Add(x, ConvertDType(InsertAxes(e.Encode(g), 0), dtype))
			is.Equal(t, "type of tokens", out.DType(), dtype)
			gathers := slices.ContainsFunc(g.Nodes(), func(n *Node) bool { return n.Type() == NodeTypeGather })
			is.Equal(t, "a gather for a whole sequence", gathers, false)
			return []*Node{ConvertDType(out, dtypes.Float32), ConvertDType(want, dtypes.Float32)}
		}), float32(0))
		gomlxtest.Near(t, dtype.String(), got[0], got[1], 0)
	}
}

func TestPreEncode_AddsRowsByIndex(t *testing.T) {
	order := []int32{4, 0, 16, 1, 9, 9} // a subset, out of order, one position twice
	batch := [][]int64{{3, 1, 2}, {16, 0, 5}}
	got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
		g := in[0].Graph()
		e := testEncoder(s)
		zero := func(dims ...int) *Node { return Zeros(g, shapes.Make(dtypes.Float32, dims...)) }
		return []*Node{
			e.Encode(g),
			e.PreEncode(zero(2, len(order), width), in[0], 1),
			e.PreEncode(zero(2, 3, width), in[1], 1),
			e.PreEncode(zero(len(order), 11, width), in[0], 0), // the sequence in front of another axis
		}
	}, order, batch)
	row := func(table []float64, i int) []float64 { return table[i*width : (i+1)*width] }
	for i, index := range order {
		for b := range 2 {
			gomlxtest.Near(t, "one order for all", row(got[1], b*len(order)+i), row(got[0], int(index)), 0)
		}
		for j := range 11 {
			gomlxtest.Near(t, "sequence first", row(got[3], i*11+j), row(got[0], int(index)), 0)
		}
	}
	for b, indices := range batch {
		for i, index := range indices {
			gomlxtest.Near(t, "an order for each", row(got[2], b*3+i), row(got[0], int(index)), 0)
		}
	}
}

func TestPreEncode_RefusesTokensThatDoNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		dims    []int
		axis    int
		indices []int32
	}{
		"16 tokens":     {[]int{2, positions - 1, width}, 1, nil},
		"axis 2":        {[]int{2, positions, width}, 2, nil},
		"[2, 17, 8]":    {[]int{2, positions, width + 1}, 1, nil},
		"positionIndic": {[]int{2, 4, width}, 1, []int32{0, 1, 2}},
	} {
		err := exceptions.TryCatch[error](func() {
			g := NewGraph(gomlxtest.Backend(), name)
			var indices *Node
			if c.indices != nil {
				indices = Const(g, c.indices)
			}
			testEncoder(model.NewStore().RootScope()).PreEncode(ramp(g, c.dims...), indices, c.axis)
		})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
