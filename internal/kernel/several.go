// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Several is a function of several inputs, of the shape of the first or scalars, with several values and explicit
// gradients: backward takes the gradient of the i-th value and returns that of each input, in order. As with the other
// functions here, gradients are only built on request.
func Several(inputs []*Node, values int, forward func() []*Node, backward func(i int, dy *Node) []*Node) []*Node {
	stands := make([]*Node, values) // for the values, as in withGradient
	for i := range stands {
		var gradients []*Node
		var all *Node // a node whose gradient reaches every input
		for j, x := range inputs {
			x = IdentityWithCustomGradient(x, func(_, _ *Node) *Node { return gradients[j] })
			if all == nil {
				all = x
			} else {
				all = Add(all, x)
			}
		}
		stands[i] = IdentityWithCustomGradient(all, func(_, dy *Node) *Node {
			gradients = backward(i, dy)
			return gradients[0]
		})
	}
	return differentiatedAs(stands, forward)
}

// Unstack returns the elements of x along its first axis. Its gradient is a Stack; autodiff's is a sum of as many
// padded arrays of the size of x.
func Unstack(x *Node) []*Node {
	dims := x.Shape().Dimensions
	gradients, stands := make([]*Node, dims[0]), make([]*Node, dims[0])
	all := IdentityWithCustomGradient(x, func(_, _ *Node) *Node {
		each := slices.Clone(gradients)
		clear(gradients) // another gradient in this graph may not reach all elements
		for i, dy := range each {
			if dy == nil {
				each[i] = Zeros(x.Graph(), shapes.Make(x.DType(), dims[1:]...))
			}
		}
		return Stack(each, 0)
	})
	for i := range stands {
		stands[i] = IdentityWithCustomGradient(all, func(x, dy *Node) *Node {
			gradients[i] = dy
			return x // of the right shape, and unused
		})
	}
	return differentiatedAs(stands, func() []*Node {
		parts := make([]*Node, dims[0])
		for i := range parts {
			parts[i] = Reshape(SliceAxis(x, 0, AxisElem(i)), dims[1:]...)
		}
		return parts
	})
}
