// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// rect is a box: left, top, right and bottom in pixels, to the right and downwards from the outer corner of the first
// pixel. It is float32, as in graphs, so that comparisons of overlaps have the same result on host and device.
type rect [4]float32

// area is width times height.
func (b rect) area() float32 { return (b[2] - b[0]) * (b[3] - b[1]) }

// empty reports whether it has no width or no height.
func (b rect) empty() bool { return !(b[2]-b[0] > 0) || !(b[3]-b[1] > 0) }

// clip moves its sides into an image of a size, rows and cols.
func (b rect) clip(size [2]int) rect {
	for i := range b {
		b[i] = min(max(b[i], 0), float32(size[1-i%2]))
	}
	return b
}

// boxIoU is the intersection of two boxes over their union, 0 if they at most touch.
func boxIoU(a, b rect) float32 {
	width, height := min(a[2], b[2])-max(a[0], b[0]), min(a[3], b[3])-max(a[1], b[1])
	if !(width > 0) || !(height > 0) {
		return 0
	}
	both := width * height
	return both / (a.area() + b.area() - both)
}

// byScore returns the indices of the n highest scores, or of all, in decreasing order, equal ones in their order, NaN
// last.
func byScore(scores []float32, n int) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(scores[j], scores[i]), i-j) })
	return order[:min(n, len(order))]
}

// nms is greedy non-maximum suppression: in order of decreasing score it keeps each detection whose IoU with every kept
// one of the same class is at most overlap, up to limit, and returns their indices in this order.
func nms(all []detection, overlap float32, limit int) (keep []int) {
	scores := make([]float32, len(all))
	for i, d := range all {
		scores[i] = d.score
	}
	of := map[int][]rect{} // kept boxes by class
	for _, i := range byScore(scores, len(scores)) {
		if len(keep) == limit {
			break
		}
		d := all[i]
		if !slices.ContainsFunc(of[d.class], func(kept rect) bool { return boxIoU(kept, d.box) > overlap }) {
			keep = append(keep, i)
			of[d.class] = append(of[d.class], d.box)
		}
	}
	return keep
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// constant returns boxes as a node [n, 4].
func constant(g *Graph, boxes []rect) *Node { return Const(g, boxTensor(boxes, len(boxes))) }

// boxTensor returns boxes as [dims…, 4].
func boxTensor(boxes []rect, dims ...int) *tensors.Tensor {
	var flat []float32
	for _, b := range boxes {
		flat = append(flat, b[:]...)
	}
	return tensors.FromFlatDataAndDimensions(flat, append(dims, 4)...)
}

// boxesIn returns the boxes of the values of a tensor [..., 4].
func boxesIn(flat []float32) []rect {
	boxes := make([]rect, len(flat)/4)
	for i := range boxes {
		boxes[i] = rect(flat[4*i:])
	}
	return boxes
}

// Boxes of graphs are float32 [..., 4] as rect. They come from the host or have no gradient: losses compare the encoded
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
