// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
)

// Mix is an Einsum "weights,x->y" whose weights have no gradient: their product with dy, which autodiff would build and
// ONNX Runtime run though nobody reads it, is not there.
func Mix(equation string, weights, x *Node) *Node {
	inputs, y, _ := strings.Cut(equation, "->")
	of, from, _ := strings.Cut(inputs, ",")
	return withGradient(x, func(x *Node) *Node { return Einsum(equation, weights, x) },
		func(_, dy *Node) *Node { return Einsum(of+","+y+"->"+from, weights, dy) })
}
