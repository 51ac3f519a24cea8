// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Crop is the places begin to end of one axis of x. Its gradient is dy between zeros by a concatenation, where that of
// GoMLX's is a Pad, which not all backends have.
func Crop(x *Node, axis, begin, end int) *Node {
	n := x.Shape().Dim(axis)
	if begin == 0 && end == n {
		return x
	}
	return withGradient(x,
		func(x *Node) *Node { return SliceAxis(x, axis, AxisRange(begin, end)) },
		func(_, dy *Node) *Node { return ZeroPad(dy, axis, begin, n-end) })
}

// ZeroPad puts zeros in front of x and behind it on one axis.
func ZeroPad(x *Node, axis, before, after int) *Node {
	zeros := func(n int) *Node {
		dims := slices.Clone(x.Shape().Dimensions)
		dims[axis] = n
		return Zeros(x.Graph(), shapes.Make(x.DType(), dims...))
	}
	parts := []*Node{x}
	if before > 0 {
		parts = []*Node{zeros(before), x}
	}
	if after > 0 {
		parts = append(parts, zeros(after))
	}
	return Concatenate(parts, axis)
}

// Neighbours puts the 3×3 cells around each cell of a map side by side, zero outside of it: [batch, rows, cols,
// channels] -> [batch, rows, cols, 9·channels], the nine row by row. A convolution is its product with weights
// [3, 3, channels, out] in one matrix: so its speed is that of products, on every backend.
func Neighbours(x *Node) *Node {
	d := x.Shape().Dimensions
	rows, cols, channels := d[1], d[2], d[3]
	shifted := func(padded *Node, k int, channels SliceAxisSpec) *Node { // k/3-1 rows below and k%3-1 columns to the right
		return Slice(padded, AxisRange(), AxisRange(k/3, k/3+rows), AxisRange(k%3, k%3+cols), channels)
	}
	around := func(x *Node) *Node { return ZeroPad(ZeroPad(x, 1, 1, 1), 2, 1, 1) }
	return withGradient(x, func(x *Node) *Node {
		padded, nine := around(x), make([]*Node, 9)
		for k := range nine {
			nine[k] = shifted(padded, k, AxisRange())
		}
		return Concatenate(nine, -1)
	}, func(_, dy *Node) *Node {
		padded := around(dy)
		var dx *Node
		for k := range 9 { // back the way it came
			one := shifted(padded, 8-k, AxisRange(k*channels, (k+1)*channels))
			if dx == nil {
				dx = one
			} else {
				dx = Add(dx, one)
			}
		}
		return dx
	})
}
