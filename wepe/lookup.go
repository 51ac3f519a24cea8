// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
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
	constant := func(x []float64) *Node { return ConstAsDType(g, dtype, x) }
	u, v := key.extents()
	last := float64(key.Resolution - 1)
	f := bilinear(values, MulScalar(constant(tx), last/u), MulScalar(constant(ty), last/v)) // [len(x), 4]
	part := func(i int) *Node { return Add(channel(f, i), constant(poles[i])) }
	return ComplexNode{part(0), part(1)}, ComplexNode{part(2), part(3)}
}

// bilinear interpolates a table [rows, cols, channels] at column x and row y, both [...] and counted in nodes, up to
// its borders: [..., channels], mathematics.md (7.1).
func bilinear(table, x, y *Node) *Node {
	left, s := nodeBefore(x, table.Shape().Dim(1))
	top, t := nodeBefore(y, table.Shape().Dim(0))
	at := func(row, col *Node) *Node { // int64: the type whose gather has a gradient on every backend
		return Gather(table, ConvertDType(Stack([]*Node{row, col}, -1), dtypes.Int64))
	}
	right, bottom := AddScalar(left, 1), AddScalar(top, 1)
	lerp := func(a, b, s *Node) *Node { return Add(a, Mul(Sub(b, a), InsertAxes(s, -1))) }
	return lerp(lerp(at(top, left), at(top, right), s), lerp(at(bottom, left), at(bottom, right), s), t)
}

// nodeBefore clips x to [0, n-1] and returns the index of the node in front of it and the distance from there. The
// index is a constant to the gradient.
func nodeBefore(x *Node, n int) (index, distance *Node) {
	x = ClipScalar(x, 0, float64(n-1))
	index = StopGradient(MinScalar(Floor(x), float64(n-2)))
	return index, Sub(x, index)
}

// channel picks one element of the last axis, by a product with zeros and a one: a slice has no gradient in ONNX.
func channel(x *Node, index int) *Node {
	one := make([]float64, x.Shape().Dim(-1))
	one[index] = 1
	return ReduceSum(Mul(x, alongLast(ConstAsDType(x.Graph(), x.DType(), one), x.Rank())), -1)
}
