// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import . "github.com/gomlx/gomlx/core/graph"

// Several is a function of several inputs with several values and explicit gradients: backward takes the gradient of
// the i-th value and returns the gradient of each input, in the inputs' sizes and order. As with the other functions
// here, gradients are only built on request.
func Several(inputs []*Node, values int, forward func() []*Node, backward func(i int, dy *Node) []*Node) []*Node {
	flat := func(parts []*Node) *Node {
		vectors := make([]*Node, len(parts))
		for i, x := range parts {
			vectors[i] = Reshape(x, -1)
		}
		return Concatenate(vectors, 0)
	}
	all := flat(inputs)             // autodiff splits its gradient again
	stands := make([]*Node, values) // for the values, as in withGradient
	for i := range stands {
		stands[i] = IdentityWithCustomGradient(all, func(_, dy *Node) *Node { return flat(backward(i, dy)) })
	}
	y, _ := InternalFusedOpCallerMulti(forward, func() []*Node { return stands }, true)
	return y
}
