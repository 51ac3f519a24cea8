// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// Boxes of graphs are float32 [..., 4] as Box. They come from the host or have no gradient: losses compare the encoded
// deltas.

// scaleClamp bounds the growth of a decoded box: an untrained head must not overflow.
var scaleClamp = math.Log(1000.0 / 16)

// sides are the four coordinates of boxes, each [..., 1].
func sides(boxes *Node) (left, top, right, bottom *Node) {
	side := func(i int) *Node { return SliceAxis(boxes, -1, AxisRange(i, i+1)) }
	return side(0), side(1), side(2), side(3)
}

// centre is the centre and the size of boxes, each [..., 1].
func centre(boxes *Node) (x, y, width, height *Node) {
	left, top, right, bottom := sides(boxes)
	width, height = Sub(right, left), Sub(bottom, top)
	return Add(left, MulScalar(width, 0.5)), Add(top, MulScalar(height, 0.5)), width, height
}

// deltas are the weights of the four numbers that encode one box relative to another:
//
//	dx = wx·(x′ - x)/width      dw = ww·log(width′/width)
//	dy = wy·(y′ - y)/height     dh = wh·log(height′/height)       x, y the centre
type deltas [4]float64

// encode returns the deltas [..., 4] from boxes to targets.
func (w deltas) encode(boxes, targets *Node) *Node {
	x, y, width, height := centre(boxes)
	x2, y2, width2, height2 := centre(targets)
	return Concatenate([]*Node{
		MulScalar(Div(Sub(x2, x), width), w[0]), MulScalar(Div(Sub(y2, y), height), w[1]),
		MulScalar(Log(Div(width2, width)), w[2]), MulScalar(Log(Div(height2, height)), w[3]),
	}, -1)
}

// decode applies deltas [..., 4] to boxes [..., 4]; dw and dh are at most scaleClamp.
func (w deltas) decode(by, boxes *Node) *Node {
	x, y, width, height := centre(boxes)
	dx, dy, dw, dh := sides(by)
	x = Add(Mul(DivScalar(dx, w[0]), width), x)
	y = Add(Mul(DivScalar(dy, w[1]), height), y)
	width = MulScalar(Mul(Exp(MinScalar(DivScalar(dw, w[2]), scaleClamp)), width), 0.5)
	height = MulScalar(Mul(Exp(MinScalar(DivScalar(dh, w[3]), scaleClamp)), height), 0.5)
	return Concatenate([]*Node{Sub(x, width), Sub(y, height), Add(x, width), Add(y, height)}, -1)
}

// clip clips boxes [batch, n, 4] to their images of sizes [batch, 2], rows and cols.
func clip(boxes, sizes *Node) *Node {
	rows, cols := SliceAxis(sizes, -1, AxisRange(0, 1)), SliceAxis(sizes, -1, AxisRange(1, 2))
	most := InsertAxes(Concatenate([]*Node{cols, rows, cols, rows}, -1), 1) // [batch, 1, 4]
	return Min(MaxScalar(boxes, 0), most)
}

// nonEmpty is 1 where boxes [..., 4] have a width and a height, otherwise 0: [...].
func nonEmpty(boxes *Node) *Node {
	_, _, width, height := centre(boxes)
	zero := ZerosLike(width)
	both := LogicalAnd(GreaterThan(width, zero), GreaterThan(height, zero))
	return Squeeze(ConvertDType(both, boxes.DType()), -1)
}

// pairwiseIoU is the IoU of boxes [batch, n, 4] with others [batch, m, 4]: [batch, n, m], 0 if two at most touch.
func pairwiseIoU(boxes, others *Node) *Node {
	area := func(left, top, right, bottom *Node) *Node { return Mul(Sub(right, left), Sub(bottom, top)) }
	left, top, right, bottom := sides(boxes) // [batch, n, 1]
	of := TransposeAllAxes(others, 0, 2, 1)  // [batch, 4, m]
	row := func(i int) *Node { return SliceAxis(of, 1, AxisRange(i, i+1)) }
	left2, top2, right2, bottom2 := row(0), row(1), row(2), row(3) // [batch, 1, m]
	both := Mul(MaxScalar(Sub(Min(right, right2), Max(left, left2)), 0),
		MaxScalar(Sub(Min(bottom, bottom2), Max(top, top2)), 0)) // [batch, n, m]
	union := Sub(Add(area(left, top, right, bottom), area(left2, top2, right2, bottom2)), both)
	some := GreaterThan(both, ZerosLike(both))
	return Where(some, Div(both, Where(some, union, OnesLike(union))), ZerosLike(both))
}
