// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// The look-up table of an encoder is a variable, not trainable, so that the model's checkpoints contain it.
const (
	scopeTable      = "table"
	nameTableValues = "values" // [nodes, nodes, 4], on the sphere 6
	nameTableKey    = "key"    // of earlier versions: what the table was computed from
)

// worstTable is the largest error of a feature for which a table is built; Warning names one above the tolerance.
const worstTable = 1e-2

// tolerance is the largest error of a feature that Warning does not name. On the default lattice 256 nodes err by 9e-8.
func (c compression) tolerance() float64 {
	return map[compression]float64{compressTanh: 1e-5, compressSphere: 1e-3}[c]
}

// openTable opens the stored table, or builds it. It panics with ConfigError if the table's features would err by more
// than worstTable, or if the stored table is of another lattice or form.
func (e *encoder) openTable() {
	scope := e.scope.At(scopeTable)
	if scope.GetVariable(nameTableKey) != nil {
		if err := scope.DeleteVariable(nameTableKey); err != nil {
			exceptions.Panicf("wepe: %v", err)
		}
	}
	v, nodes := scope.GetVariable(nameTableValues), tableNodes
	if v != nil && v.Shape().Rank() == 3 {
		nodes = max(v.Shape().Dim(0), 2)
	}
	scalars, err := e.Scalars()
	if err != nil {
		exceptions.Panicf("%v", err)
	}
	e.table, err = newHostTable(e.config, scalars["omega3"], nodes)
	if err != nil {
		exceptions.Panicf("wepe: table: %v", err)
	}
	if v == nil {
		values := e.table.values()
		if bound := e.table.errorBound(values, scalars["alpha_scale"]); bound > worstTable {
			refuse("", "features from %v may err by %.2g, more than %g: evaluate without a table", e.table, bound, worstTable)
		}
		stored := filled(values, nodes, nodes, e.table.channels())
		if v, err = scope.CreateVariable(nameTableValues, stored); err != nil {
			exceptions.Panicf("wepe: table in %q: %v", scope.Scope(), err)
		}
	}
	v.SetTrainable(false) // variables from a checkpoint are trainable
	if err := e.checkTable(v, scalars["alpha_scale"]); err != nil {
		panic(err)
	}
	e.nodes = v
}

// checkTable recomputes a few nodes, on the border and inside, and returns an error if the stored ones differ by more
// than float32 rounds. It sets the bound on the error of features.
func (e *encoder) checkTable(v *model.Variable, alphaScale float64) error {
	t := e.table
	if want := []int{t.nodes, t.nodes, t.channels()}; v.Shape().Rank() != 3 || v.Shape().Dim(1) != want[1] ||
		v.Shape().Dim(2) != want[2] {
		return ConfigError{Reason: fmt.Sprintf("variable %q is %s, want %d", v.Path(), v.Shape(), want)}
	}
	stored, err := flat(v)
	if err != nil {
		return err
	}
	e.tableError = t.errorBound(stored, alphaScale)
	node := t.node()
	u, w := t.extents()
	last := t.nodes - 1
	for _, row := range []int{0, last / 3, last} {
		for _, col := range []int{0, last / 2, last} {
			at := (row*t.nodes + col) * t.channels()
			for i, want := range node(u*float64(col)/float64(last), w*float64(row)/float64(last)) {
				if got := stored[at+i]; !(math.Abs(got-want) <= 1e-6*max(1, math.Abs(want))) {
					return ConfigError{Reason: fmt.Sprintf("variable %q is not %v over %g × %g periods: node (%d, %d) is %g, want %g",
						v.Path(), t, u, w, row, col, got, want)}
				}
			}
		}
	}
	return nil
}

// lookUpPatches returns ℘ and ℘′ of the patches from the stored table, mathematics.md (7.1) and (7.3). The points are
// known while the graph is built, so the principal parts are computed in float64; float32 would lose digits where they
// dominate.
func (e *encoder) lookUpPatches(g *Graph, on grid) (p, pPrime ComplexNode) {
	t, nodes := e.table, e.nodes.NodeValue(g) // [nodes, nodes, 4]
	extU, extV := t.extents()
	last := float64(t.nodes - 1)
	var x, y []float64 // in nodes
	poles := make([][]float64, 4)
	u, v := on.centres()
	for i := range u {
		tx, dx := cellOffsets(u[i]*t.u - math.Round(u[i]*t.u))
		ty, dy := cellOffsets(v[i]*t.v - math.Round(v[i]*t.v))
		x, y = append(x, tx*last/extU), append(y, ty*last/extV)
		for j, f := range realParts(t.principalParts(dx, dy)) {
			poles[j] = append(poles[j], f)
		}
	}
	f := bilinear(nodes, x, y) // [len(x), 4]
	part := func(i int) *Node { return Add(elliptic.Channel(f, i), ConstAsDType(g, nodes.DType(), poles[i])) }
	return ComplexNode{Re: part(0), Im: part(1)}, ComplexNode{Re: part(2), Im: part(3)}
}

// lookUpSphere returns the features of the patches from the stored table.
func (e *encoder) lookUpSphere(g *Graph, on grid) *Node {
	nodes := e.nodes.NodeValue(g) // [nodes, nodes, 6]
	x, y := e.config.patches(on)
	place := func(periods []float64) []float64 {
		periods = e.config.scaled(periods)
		for i, x := range periods {
			periods[i] = (x - math.Floor(x)) * float64(e.table.nodes-1)
		}
		return periods
	}
	f := bilinear(nodes, place(x), place(y)) // [views·n, 6]

	// weierstrass.Dilated.
	s := e.config.mode.alphaScale(e.alphaScale.NodeValue(g))
	var parts []*Node
	for i := 0; i < e.config.numFeatures()/e.config.views(); i += 3 {
		height := elliptic.Channel(f, i+2)
		top, bottom := Mul(Square(s), AddScalar(height, 1)), OneMinus(height)
		sum := Add(top, bottom)
		parts = append(parts, Div(MulScalar(Mul(s, elliptic.Channel(f, i)), 2), sum),
			Div(MulScalar(Mul(s, elliptic.Channel(f, i+1)), 2), sum), Div(Sub(top, bottom), sum))
	}
	return e.sideBySide(Stack(parts, -1))
}

// bilinear interpolates a table [rows, cols, channels] at columns x and rows y, counted in nodes, up to its borders:
// [len(x), channels], mathematics.md (7.1). Nodes and weights are computed on the host.
func bilinear(table *Node, x, y []float64) *Node {
	g, rows, cols := table.Graph(), table.Shape().Dim(0), table.Shape().Dim(1)
	nodes, weights := make([]int64, 0, 4*len(x)), make([]float64, 0, 4*len(x))
	for i := range x {
		left, s := nodeBefore(x[i], cols)
		top, t := nodeBefore(y[i], rows)
		for corner, weight := range []float64{(1 - s) * (1 - t), s * (1 - t), (1 - s) * t, s * t} {
			nodes = append(nodes, int64((top+corner/2)*cols+left+corner%2))
			weights = append(weights, weight)
		}
	}
	corners := additive.Rows(Reshape(table, rows*cols, -1), Reshape(Const(g, nodes), len(x), 4)) // [len(x), 4, channels]
	return ReduceSum(Mul(corners, Reshape(ConstAsDType(g, table.DType(), weights), len(x), 4, 1)), 1)
}

// nodeBefore returns the node before x, of n at 0, 1, …, and the distance of x from it, in [0, 1].
func nodeBefore(x float64, n int) (index int, distance float64) {
	x = min(max(x, 0), float64(n-1))
	index = min(int(x), n-2)
	return index, x - float64(index)
}

// filled returns a float32 tensor with the given elements.
func filled(values []float64, dims ...int) *tensors.Tensor {
	rounded := make([]float32, len(values))
	for i, v := range values {
		rounded[i] = float32(v)
	}
	return tensors.FromFlatDataAndDimensions(rounded, dims...)
}
