// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"runtime"
	"sync"
	"weak"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// written has the nodes made here whose gradients are written out, a func(y, dy *Node) []*Node each, as weak pointers:
// what autodiff tells of a node does not say which axes a product contracts.
var written sync.Map

func init() {
	for _, kind := range []NodeType{NodeTypeDotGeneral, NodeTypeAdd, NodeTypeMul} {
		plain := VJPRegistration[kind]
		VJPRegistration[kind] = func(y *Node, dys []*Node, of shapes.Shape) []*Node {
			if gradient, found := written.Load(weak.Make(y)); found {
				return gradient.(func(y, dy *Node) []*Node)(y, dys[0])
			}
			return plain(y, dys, of)
		}
	}
}

// write writes out the gradient of a node, a function that refers to no node itself.
func write(y *Node, gradient func(y, dy *Node) []*Node) *Node {
	if !y.DType().IsHalfPrecision() { // whose gradient is accumulated in float32
		key := weak.Make(y)
		written.Store(key, gradient)
		runtime.AddCleanup(y, func(key weak.Pointer[Node]) { written.Delete(key) }, key)
	}
	return y
}

// Product is a·b over a [..., n, k] and b [..., k, m] of equal leading axes.
//
// For y = a·b autodiff contracts the last axes of dy and b, the first ones of a and dy. ONNX Runtime has no other name
// for such products than Einsum, twice as slow at the sizes of attention (docs/upstream.md), and the pure-Go backend
// computes them with a horizontal sum for every number. Written with a transpose, they are dy·bᵀ and aᵀ·dy: products of
// the plain kind, with which ONNX Runtime fuses the transpose. The pure-Go backend moves numbers for it, so the smaller
// tensors are transposed.
func Product(a, b *Node) *Node {
	return write(MatMul(a, b), func(y, dy *Node) []*Node {
		a, b := y.Inputs()[0], y.Inputs()[1]
		ofA := Product(dy, Transpose(b, -1, -2))
		if a.Shape().Size() > dy.Shape().Size()+b.Shape().Size() {
			return []*Node{ofA, Transpose(Product(Transpose(dy, -1, -2), a), -1, -2)}
		}
		return []*Node{ofA, Product(Transpose(a, -1, -2), dy)}
	})
}

// addRow is x [n, m] + row [m], and mulRow x·row. The sum over n in their gradients is a product with ones: on the
// pure-Go backend it takes a seventh of the time.
func addRow(x, row *Node) *Node {
	return write(Add(x, InsertAxes(row, 0)), func(_, dy *Node) []*Node { return []*Node{dy, sumRows(dy)} })
}

func mulRow(x, row *Node) *Node {
	return write(Mul(x, InsertAxes(row, 0)), func(y, dy *Node) []*Node {
		x, row := y.Inputs()[0], y.Inputs()[1]
		return []*Node{Mul(dy, row), sumRows(Mul(dy, x))}
	})
}

// sumRows takes [n, m] to [1, m].
func sumRows(x *Node) *Node {
	return Product(Ones(x.Graph(), shapes.Make(x.DType(), 1, x.Shape().Dim(0))), x)
}

// Affine is x·gain + offset on the last axis.
func Affine(x, gain, offset *Node) *Node {
	y := addRow(mulRow(Reshape(x, -1, x.Shape().Dim(-1)), gain), offset)
	return Reshape(y, x.Shape().Dimensions...)
}

// Dense is x·weights + biases over x [..., in], weights [in, out] and biases [out] or nil.
func Dense(x, weights, biases *Node) *Node {
	plain := func() *Node {
		out := x.Shape().Clone()
		in := out.Dim(-1)
		out.Dimensions[out.Rank()-1] = weights.Shape().Dim(-1)
		y := Product(Reshape(x, -1, in), weights)
		if biases != nil {
			y = addRow(y, biases) // before the rows get their axes back: ONNX Runtime adds within the product
		}
		return Reshape(y, out.Dimensions...)
	}
	y, _ := InternalFusedOpCaller(
		func() *Node { return BackendFusedDense(x, weights, biases, compute.DenseConfig{}) }, plain, true)
	return y
}
