// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import . "github.com/gomlx/gomlx/core/graph"

// Rescale is y = x∘m over x [batch, ...] and factors m [1 or batch, ...], float32, multiplied in float32, in the type
// of x. Autodiff stores x for the gradient of m, Σ dy∘x, summed over the batch; with [1, ...] it is Σ dy∘y / m here, so
// that only y is stored, which the next operation needs anyway. A zero factor gets no gradient in that step.
func Rescale(x, m *Node) *Node {
	wide := func(x *Node) *Node { return ConvertDType(x, m.DType()) }
	product := func(in []*Node) *Node { return ConvertDType(Mul(wide(in[0]), in[1]), x.DType()) }
	if m.Shape().Dim(0) != 1 {
		return product([]*Node{x, m})
	}
	var y *Node
	y = replaceGradients([]*Node{x, m}, product,
		nil, func(dy *Node) *Node {
			sum := ReduceAndKeep(Mul(wide(dy), wide(y)), ReduceSum, 0)
			zero := Equal(m, ZerosLike(m))
			return Where(zero, ZerosLike(m), Div(sum, Where(zero, OnesLike(m), m)))
		})
	return y
}
