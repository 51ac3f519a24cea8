// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// ComplexNode is wepe.ComplexNode.
type ComplexNode struct{ Re, Im *Node }

func (a ComplexNode) Add(b ComplexNode) ComplexNode {
	return ComplexNode{Add(a.Re, b.Re), Add(a.Im, b.Im)}
}
func (a ComplexNode) sub(b ComplexNode) ComplexNode {
	return ComplexNode{Sub(a.Re, b.Re), Sub(a.Im, b.Im)}
}

func (a ComplexNode) mul(b ComplexNode) ComplexNode {
	return ComplexNode{Sub(Mul(a.Re, b.Re), Mul(a.Im, b.Im)), Add(Mul(a.Re, b.Im), Mul(a.Im, b.Re))}
}

// mulScalar is mul for a scalar b, whose imaginary part may be nil for 0; a may be such a scalar too.
func (a ComplexNode) mulScalar(b ComplexNode) ComplexNode {
	switch {
	case b.Im != nil:
		return a.mul(b)
	case a.Im == nil:
		return ComplexNode{Re: Mul(a.Re, b.Re)}
	}
	return a.Times(b.Re)
}

// square is mul(a, a) without the cancellation of Re² - Im².
func (a ComplexNode) square() ComplexNode {
	return ComplexNode{Mul(Sub(a.Re, a.Im), Add(a.Re, a.Im)), MulScalar(Mul(a.Re, a.Im), 2)}
}

// Times multiplies by a real node that broadcasts.
func (a ComplexNode) Times(x *Node) ComplexNode { return ComplexNode{Mul(a.Re, x), Mul(a.Im, x)} }

// scale multiplies by a real constant.
func (a ComplexNode) scale(x float64) ComplexNode {
	return ComplexNode{MulScalar(a.Re, x), MulScalar(a.Im, x)}
}

// like broadcasts a scalar to the shape of x.
func (a ComplexNode) like(x *Node) ComplexNode { return ComplexNode{like(a.Re, x), like(a.Im, x)} }

func like(a, x *Node) *Node {
	if a.Shape().Equal(x.Shape()) {
		return a
	}
	return BroadcastToShape(a, x.Shape())
}

// Norm2 is |a|².
func (a ComplexNode) Norm2() *Node { return Add(Square(a.Re), Square(a.Im)) }

// inverse is 1/a given |a|² (or a floored |a|², which keeps the result finite at a = 0).
func (a ComplexNode) inverse(norm2 *Node) ComplexNode {
	return ComplexNode{Div(a.Re, norm2), Neg(Div(a.Im, norm2))}
}

// Expand appends an axis of size 1, against which rows or terms broadcast.
func (a ComplexNode) Expand() ComplexNode {
	return ComplexNode{InsertAxes(a.Re, -1), InsertAxes(a.Im, -1)}
}

// sumLast sums over the last axis.
func (a ComplexNode) sumLast() ComplexNode {
	return ComplexNode{ReduceSum(a.Re, -1), ReduceSum(a.Im, -1)}
}

// AlongLast gives a vector [n] the shape [1, …, 1, n] of the given rank, against which [..., n] broadcasts.
func AlongLast(x *Node, rank int) *Node {
	dims := slices.Repeat([]int{1}, rank)
	dims[rank-1] = x.Shape().Size()
	return Reshape(x, dims...)
}

// Multiples is the constant [n] of 1, 2, …, n times unit.
func Multiples(g *Graph, dtype dtypes.DType, unit float64, n int) *Node {
	x := make([]float64, n)
	for i := range x {
		x[i] = unit * float64(i+1)
	}
	return ConstAsDType(g, dtype, x)
}

// zeros is 0 in a's shape.
func zeros(a ComplexNode) ComplexNode { return ComplexNode{ZerosLike(a.Re), ZerosLike(a.Im)} }

// where selects element by element, or everything for a scalar condition; a and b have the same shape.
func where(condition *Node, a, b ComplexNode) ComplexNode {
	return ComplexNode{Where(condition, a.Re, b.Re), Where(condition, a.Im, b.Im)}
}

// Channel picks one element of the last axis by a product with a one-hot vector: a slice has no gradient in ONNX.
func Channel(x *Node, index int) *Node {
	one := make([]float64, x.Shape().Dim(-1))
	one[index] = 1
	return ReduceSum(Mul(x, AlongLast(ConstAsDType(x.Graph(), x.DType(), one), x.Rank())), -1)
}
