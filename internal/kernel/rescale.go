// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import . "github.com/gomlx/gomlx/core/graph"

// Rescale is y = x∘m over x [batch, ...] and factors m [1, ...]. Autodiff stores x for the gradient of m, Σ dy∘x,
// summed over the batch; here it is Σ dy∘y / m, so that only y is stored, which the next operation needs anyway. The
// quotient has the relative precision of y, too little in 16 bits. A zero factor gets no gradient in that step.
func Rescale(x, m *Node) *Node {
	if m.Shape().Dim(0) != 1 || x.DType().IsHalfPrecision() {
		return Mul(x, m)
	}
	var y *Node
	y = replaceGradients([]*Node{x, m}, func(in []*Node) *Node { return Mul(in[0], in[1]) },
		nil, func(dy *Node) *Node {
			sum := ReduceAndKeep(Mul(dy, y), ReduceSum, 0)
			zero := Equal(m, ZerosLike(m))
			return Where(zero, ZerosLike(m), Div(sum, Where(zero, OnesLike(m), m)))
		})
	return y
}
