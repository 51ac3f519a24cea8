// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import . "github.com/gomlx/gomlx/core/graph"

// Mix is the product of weights [..., n, k] and x [..., k, m] of equal leading axes without a gradient for the weights,
// which autodiff would build and ONNX Runtime would run even unused.
func Mix(weights, x *Node) *Node {
	return withGradient(x, func(x *Node) *Node { return MatMul(weights, x) },
		func(_ *Node, _ func() *Node, dy *Node) *Node { return MatMul(Transpose(weights, -1, -2), dy) })
}
