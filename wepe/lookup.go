// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/additive"
)

// lookUpPatches returns ℘ and ℘′ of the patches from the stored table, mathematics.md (7.1) and (7.3). The points are
// known while the graph is built, so the principal parts are computed in float64; float32 would lose digits where they
// dominate.
func (e *Encoder) lookUpPatches(g *Graph) (p, pPrime ComplexNode) {
	key, nodes := e.mustOpenTable(g) // [resolution, resolution, 4]
	perU, perV := key.periods()
	extU, extV := key.extents()
	last := float64(key.Resolution - 1)
	var x, y []float64 // in nodes
	poles := make([][]float64, 4)
	u, v := e.config.centres()
	for i := range u {
		tx, dx := cellOffsets(u[i]*perU - math.Round(u[i]*perU))
		ty, dy := cellOffsets(v[i]*perV - math.Round(v[i]*perV))
		x, y = append(x, tx*last/extU), append(y, ty*last/extV)
		for j, f := range realParts(key.principalParts(dx, dy)) {
			poles[j] = append(poles[j], f)
		}
	}
	f := bilinear(nodes, x, y) // [len(x), 4]
	part := func(i int) *Node { return Add(channel(f, i), ConstAsDType(g, nodes.DType(), poles[i])) }
	return ComplexNode{part(0), part(1)}, ComplexNode{part(2), part(3)}
}

// lookUpSphere returns the features of the patches from the stored table.
func (e *Encoder) lookUpSphere(g *Graph) *Node {
	key, nodes := e.mustOpenTable(g) // [resolution, resolution, 6]
	x, y := e.config.patches()
	place := func(periods []float64) []float64 {
		periods = e.config.scaled(periods)
		for i, x := range periods {
			periods[i] = (x - math.Floor(x)) * float64(key.Resolution-1)
		}
		return periods
	}
	f := bilinear(nodes, place(x), place(y)) // [views·n, 6]

	// weierstrass.Dilated.
	s := e.config.mode.alphaScale(e.alphaScale.NodeValue(g))
	var parts []*Node
	for i := 0; i < e.config.numFeatures()/e.config.views(); i += 3 {
		height := channel(f, i+2)
		top, bottom := Mul(Square(s), AddScalar(height, 1)), OneMinus(height)
		sum := Add(top, bottom)
		parts = append(parts, Div(MulScalar(Mul(s, channel(f, i)), 2), sum),
			Div(MulScalar(Mul(s, channel(f, i+1)), 2), sum), Div(Sub(top, bottom), sum))
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

// channel picks one element of the last axis by a product with a one-hot vector: a slice has no gradient in ONNX.
func channel(x *Node, index int) *Node {
	one := make([]float64, x.Shape().Dim(-1))
	one[index] = 1
	return ReduceSum(Mul(x, alongLast(ConstAsDType(x.Graph(), x.DType(), one), x.Rank())), -1)
}
