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

// products has the nodes made by Product, as weak pointers: what the gradient of a node is told says nothing of the
// axes that a product contracts.
var products sync.Map

// For y = a·b autodiff contracts the last axes of dy and b, the first ones of a and dy. ONNX Runtime has no other name
// for such products than Einsum, two to three times as slow as the product itself, and the pure-Go backend computes
// them with a horizontal sum for every number. Written with a transpose, they are dy·bᵀ and aᵀ·dy: products of the
// plain kind, with which ONNX Runtime fuses the transpose.
func init() {
	plain := VJPRegistration[NodeTypeDotGeneral]
	VJPRegistration[NodeTypeDotGeneral] = func(y *Node, dys []*Node, of shapes.Shape) []*Node {
		if _, found := products.Load(weak.Make(y)); !found {
			return plain(y, dys, of)
		}
		a, b, dy := y.Inputs()[0], y.Inputs()[1], dys[0]
		return []*Node{Product(dy, Transpose(b, -1, -2)), Product(Transpose(a, -1, -2), dy)}
	}
}

// Product is a·b over a [..., n, k] and b [..., k, m] of equal leading axes.
func Product(a, b *Node) *Node {
	y := MatMul(a, b)
	if !y.DType().IsHalfPrecision() { // whose gradient is accumulated in float32
		key := weak.Make(y)
		products.Store(key, nil)
		runtime.AddCleanup(y, func(key weak.Pointer[Node]) { products.Delete(key) }, key)
	}
	return y
}

// Dense is x·weights + biases over x [..., in], weights [in, out] and biases [out] or nil.
func Dense(x, weights, biases *Node) *Node {
	plain := func() *Node {
		out := x.Shape().Clone()
		in := out.Dim(-1)
		out.Dimensions[out.Rank()-1] = weights.Shape().Dim(-1)
		y := Product(Reshape(x, -1, in), weights)
		if biases != nil {
			y = Add(y, InsertAxes(biases, 0)) // before the rows get their axes back: ONNX Runtime adds within the product
		}
		return Reshape(y, out.Dimensions...)
	}
	y, _ := InternalFusedOpCaller(
		func() *Node { return BackendFusedDense(x, weights, biases, compute.DenseConfig{}) }, plain, true)
	return y
}
