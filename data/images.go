// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Images builds the batch described by a plan: pixels is uint8 or float32, 0…255, [n, height, width, channels], of the
// dataset; plan holds the nodes of Plan.Tensors. The result is float32 [batch, outHeight, outWidth, channels], without
// gradients.
//
// Crop, padding, flip and resize are one linear map along each axis: with R and C from the plan's windows,
//
//	out = R · image · Cᵀ,   R[i, j] = hat((scale·i + offset − j)/s) / Σⱼ,   hat(t) = max(0, 1−|t|),
//
// s = max(1, |scale|), j running over the lines of the window; Σⱼ is the sum of the row. Lines of the window outside
// the image count in the sum but have no pixels: this is the black padding. For shifts by whole pixels R exactly
// selects rows, and because the products use values 0…255 this is exact in bfloat16 and TF32 too.
func (a Augment) Images(pixels *Node, plan []*Node) *Node {
	if pixels.Rank() != 4 || pixels.DType() != dtypes.Uint8 && pixels.DType() != dtypes.Float32 || len(plan) != PlanLen {
		exceptions.Panicf("data.Images: pixels %s and %d plan nodes, want 0 to 255 [n, height, width, channels] and %d",
			pixels.Shape(), len(plan), PlanLen)
	}
	height, width, channels := pixels.Shape().Dim(1), pixels.Shape().Dim(2), pixels.Shape().Dim(3)
	outHeight, outWidth := a.OutputSize(height, width)

	x := Gather(pixels, InsertAxes(plan[planIndices], -1)) // [batch, height, width, channels]
	x = ConvertDType(x, dtypes.Float32)
	if a.Pad > 0 || a.crops() || a.VFlip > 0 || outHeight != height || outWidth != width {
		x = warp(x, plan[planWindows], outHeight, outWidth, a.Pad)
	} else if a.HFlip > 0 {
		x = columns(x, plan[planWindows], width, 0)
	}
	x = a.normalize(x, channels)
	if a.Cutout > 0 {
		x = Mul(x, OneMinus(boxMask(plan[planCutout], outHeight, outWidth)))
	}
	if a.mixes() {
		take := Mul(boxMask(plan[PlanMix], outHeight, outWidth), // [1, outHeight, outWidth, 1]
			OneMinus(InsertAxes(field(plan[PlanMix], 4), -1, -1)))
		partner := Gather(x, InsertAxes(plan[planPartners], -1)) // [batch, outHeight, outWidth, channels]
		x = Add(Mul(x, OneMinus(take)), Mul(partner, take))
	}
	return StopGradient(x)
}

// SoftLabels returns the targets [batch, classes] of a plan: λ·own + (1−λ)·partner, then label smoothing, which moves
// the share `smoothing` to the uniform distribution.
func SoftLabels(plan []*Node, classes int, smoothing float64) *Node {
	own := OneHot(plan[planLabels], classes, dtypes.Float32)   // [batch, classes]
	partner := Gather(own, InsertAxes(plan[planPartners], -1)) // [batch, classes]
	lambda := field(plan[PlanMix], 5)                          // [1, 1]
	y := Add(Mul(own, lambda), Mul(partner, OneMinus(lambda))) // [batch, classes]
	return StopGradient(AddScalar(MulScalar(y, 1-smoothing), smoothing/float64(classes)))
}

// warp applies both maps, columns first: they need transpositions, which are cheaper on the smaller image.
func warp(x, windows *Node, outHeight, outWidth, pad int) *Node {
	height := x.Shape().Dim(1)
	x = columns(x, windows, outWidth, pad) // [batch, height, outWidth, channels]
	return apply(taps(windows, 0, outHeight, height, pad), x)
}

// columns applies the map along the columns of x [batch, height, width, channels].
func columns(x, windows *Node, outWidth, pad int) *Node {
	width := x.Shape().Dim(2)
	x = TransposeAllAxes(x, 0, 2, 1, 3)                  // [batch, width, height, channels]
	x = apply(taps(windows, 4, outWidth, width, pad), x) // [batch, outWidth, height, channels]
	return TransposeAllAxes(x, 0, 2, 1, 3)               // [batch, height, outWidth, channels]
}

// apply multiplies weights [batch, outLines, lines] with the lines of x [batch, lines, others, channels], as a plain
// batched matrix product, which every backend supports.
func apply(weights, x *Node) *Node {
	batch, lines, others, channels := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	x = Reshape(x, batch, lines, others*channels)
	x = DotGeneral(weights, []int{2}, []int{0}, x, []int{1}, []int{0}) // [batch, outLines, others·channels]
	return Reshape(x, batch, weights.Shape().Dim(1), others, channels) // [batch, outLines, others, channels]
}

// taps returns the weights [batch, outLength, length] of one axis, whose four numbers start at the given field.
func taps(windows *Node, start, outLength, length, pad int) *Node {
	g := windows.Graph()
	part := func(k int) *Node { return InsertAxes(field(windows, start+k), -1) } // [batch, 1, 1]
	scale, offset, first, end := part(0), part(1), part(2), part(3)
	i := Iota(g, shapes.Make(dtypes.Float32, 1, outLength, 1), 1)
	source := Add(Mul(scale, i), offset)  // [batch, outLength, 1]
	support := MaxScalar(Abs(scale), 1)   // [batch, 1, 1]
	hats := func(from, count int) *Node { // [batch, outLength, count]
		j := AddScalar(Iota(g, shapes.Make(dtypes.Float32, 1, 1, count), 2), from)
		hat := MaxScalar(OneMinus(Div(Abs(Sub(source, j)), support)), 0)
		return Mul(hat, within(j, first, end))
	}
	inImage := hats(0, length)
	all := inImage
	if pad > 0 {
		all = hats(-pad, length+2*pad)
	}
	return Div(inImage, ReduceAndKeep(all, ReduceSum, 2))
}

// normalize returns (x/255 − Mean)/Std per channel. A row of pixels is one axis: ONNX Runtime takes ten times as long
// if the axis of Mean and Std has three elements.
func (a Augment) normalize(x *Node, channels int) *Node {
	scale, shift := make([]float32, channels), make([]float32, channels)
	for c := range channels {
		std := cmp.Or(a.Std[c], 1)
		scale[c], shift[c] = float32(1/(255*std)), float32(-a.Mean[c]/std)
	}
	d := x.Shape().Dimensions
	row := func(v []float32) *Node { return Reshape(Const(x.Graph(), slices.Repeat(v, d[2])), 1, 1, -1) }
	y := Reshape(x, d[0], d[1], -1) // [batch, height, width·channels]
	return Reshape(Add(Mul(y, row(scale)), row(shift)), d...)
}

// boxMask is 1 inside each box (fields top, left, bottom, right) and 0 outside: [batch, height, width, 1].
func boxMask(boxes *Node, height, width int) *Node {
	g := boxes.Graph()
	part := func(k int) *Node { return InsertAxes(field(boxes, k), -1, -1) } // [batch, 1, 1, 1]
	rows := Iota(g, shapes.Make(dtypes.Float32, 1, height, 1, 1), 1)
	cols := Iota(g, shapes.Make(dtypes.Float32, 1, 1, width, 1), 2)
	return Mul(within(rows, part(0), part(2)), within(cols, part(1), part(3)))
}

// within is 1 where first <= i < end and 0 elsewhere; all three are integers.
func within(i, first, end *Node) *Node {
	return Mul(ClipScalar(AddScalar(Sub(i, first), 1), 0, 1), ClipScalar(Sub(end, i), 0, 1))
}

// field returns column k of x [batch, fields] as [batch, 1].
func field(x *Node, k int) *Node {
	return Slice(x, AxisRange(), AxisElem(k))
}
