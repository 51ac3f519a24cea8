// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/additive"
)

// lookUp is the graph's form of Table.P, mathematics.md (7.1) and (7.3): ℘ and ℘′ from the nodes of a table,
// [resolution, resolution, 4], at positions x, y in periods from the nearest lattice point, in [-½, ½]. The points are
// known while the graph is built, so that the principal parts are float64, of which float32 would lose digits where
// they dominate.
func lookUp(values *Node, key tableKey, x, y []float64) (p, pPrime ComplexNode) {
	g, dtype := values.Graph(), values.DType()
	tx, ty := make([]float64, len(x)), make([]float64, len(y))
	poles := make([][]float64, 4)
	for i := range x {
		var dx, dy [2]float64
		tx[i], dx = cellOffsets(x[i])
		ty[i], dy = cellOffsets(y[i])
		q, qPrime := key.principalParts(dx, dy)
		for j, f := range []float64{real(q), imag(q), real(qPrime), imag(qPrime)} {
			poles[j] = append(poles[j], f)
		}
	}
	u, v := key.extents()
	last := float64(key.Resolution - 1)
	for i := range x {
		tx[i], ty[i] = tx[i]*last/u, ty[i]*last/v
	}
	f := bilinear(values, tx, ty) // [len(x), 4]
	part := func(i int) *Node { return Add(channel(f, i), ConstAsDType(g, dtype, poles[i])) }
	return ComplexNode{part(0), part(1)}, ComplexNode{part(2), part(3)}
}

// bilinear interpolates a table [rows, cols, channels] at columns x and rows y, counted in nodes, up to its borders:
// [len(x), channels], mathematics.md (7.1). Which nodes and how much of each is decided here, not in the graph.
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

// nodeBefore returns the node in front of x, of n at 0, 1, …, and how far x is from there, in [0, 1].
func nodeBefore(x float64, n int) (index int, distance float64) {
	x = min(max(x, 0), float64(n-1))
	index = min(int(x), n-2)
	return index, x - float64(index)
}

// channel picks one element of the last axis, by a product with zeros and a one: a slice has no gradient in ONNX.
func channel(x *Node, index int) *Node {
	one := make([]float64, x.Shape().Dim(-1))
	one[index] = 1
	return ReduceSum(Mul(x, alongLast(ConstAsDType(x.Graph(), x.DType(), one), x.Rank())), -1)
}
