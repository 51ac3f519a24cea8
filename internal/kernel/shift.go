// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Crop is positions begin to end of one axis of x. Its gradient pads dy with zeros by a concatenation; GoMLX's gradient
// is a Pad, which not all backends support.
func Crop(x *Node, axis, begin, end int) *Node {
	n := x.Shape().Dim(axis)
	if begin == 0 && end == n {
		return x
	}
	return withGradient(x,
		func(x *Node) *Node { return SliceAxis(x, axis, AxisRange(begin, end)) },
		func(_ *Node, _ func() *Node, dy *Node) *Node { return ZeroPad(dy, axis, begin, n-end) })
}

// ZeroPad pads one axis of x with zeros before and after it.
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

// shifted has at position i of one axis what x has at i+by, 0 outside of x.
func shifted(x *Node, axis, by int) *Node {
	n := x.Shape().Dim(axis)
	switch {
	case by <= -n || by >= n:
		return ZerosLike(x)
	case by < 0:
		return ZeroPad(Crop(x, axis, 0, n+by), axis, -by, 0)
	}
	return ZeroPad(Crop(x, axis, by, n), axis, 0, by)
}

// Conv3x3 is the 3×3 convolution with zero padding, [batch, rows, cols, in] -> [batch, rows, cols, out] with weights
// [3, 3, in, out] and biases [out] or nil.
//
// The three rows around each cell are concatenated, one product computes their contributions to each of three columns,
// and these are added where they belong. So it is as fast as products on every backend, with half of the memory
// traffic of concatenating all nine cells. The gradient uses the same three steps.
func Conv3x3(x, weights, biases *Node) *Node {
	d, in, out := x.Shape().Dimensions, weights.Shape().Dim(2), weights.Shape().Dim(3)
	weights = Reshape(TransposeAllAxes(weights, 0, 2, 1, 3), 3*in, 3*out)
	y := Product(Reshape(spread(x, 1, 1), -1, 3*in), weights) // [batch·rows·cols, 3·out]
	y = merge(Reshape(y, d[0], d[1], d[2], 3*out), 2, -1)
	if biases == nil {
		return y
	}
	return Reshape(Add(Reshape(y, -1, out), InsertAxes(biases, 0)), d[0], d[1], d[2], out)
}

// spread concatenates three copies of x in the last axis, shifted along another one: position i contains positions
// i-way, i and i+way, 0 outside of x. Its gradient is merge.
func spread(x *Node, axis, way int) *Node {
	return withGradient(x, func(x *Node) *Node { return spreadOut(x, axis, way) },
		func(_ *Node, _ func() *Node, dy *Node) *Node { return mergeBack(dy, axis, way) })
}

// merge is the transpose of spread: the sum of the three parts' contributions to a position. Its gradient is spread.
func merge(x *Node, axis, way int) *Node {
	return withGradient(x, func(x *Node) *Node { return mergeBack(x, axis, way) },
		func(_ *Node, _ func() *Node, dy *Node) *Node { return spreadOut(dy, axis, way) })
}

func spreadOut(x *Node, axis, way int) *Node {
	return Concatenate([]*Node{shifted(x, axis, -way), x, shifted(x, axis, way)}, -1)
}

func mergeBack(x *Node, axis, way int) *Node {
	width := x.Shape().Dim(-1) / 3
	part := func(k int) *Node { return SliceAxis(x, -1, AxisRange(k*width, (k+1)*width)) }
	return Add(Add(part(1), shifted(part(1-way), axis, 1)), shifted(part(1+way), axis, -1))
}

// Depthwise3x3 is the 3×3 convolution of every channel of x [..., channels] by itself, with zero padding: over axis,
// the rows, and the one behind it, with weights [3, 3, channels] and biases [channels]. The columns of a window are
// combined first, so that four shifted copies suffice for its nine cells.
func Depthwise3x3(x, weights, biases *Node, axis int) *Node {
	wide := slices.Repeat([]int{1}, x.Rank())
	wide[x.Rank()-1] = x.Shape().Dim(-1)
	weights = Reshape(weights, 9, -1)
	columns := []*Node{shifted(x, axis+1, -1), x, shifted(x, axis+1, 1)}
	y := Reshape(biases, wide...)
	for i := range 3 {
		term := func(k int) *Node { return Mul(columns[k], Reshape(Crop(weights, 0, 3*i+k, 3*i+k+1), wide...)) }
		y = Add(y, shifted(Add(Add(term(0), term(1)), term(2)), axis, i-1))
	}
	return y
}
