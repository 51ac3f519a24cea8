// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// regions is the second half of a detector in a graph: the maps of its pyramid and the heads that pool boxes from them.
type regions struct {
	ROI
	classes int
	maps    []*Node // [batch, ·, ·, channels], the finest first
	strides []float64
}

// pool pools boxes [batch, n, 4] to size² cells: [batch·n, size, size, channels]. Maps for boxes larger than the canvas
// are skipped.
func (r regions) pool(boxes *Node, size int) *Node {
	d := r.maps[0].Shape().Dimensions
	l := r.levels(r.strides[:len(r.maps)], math.Sqrt(float64(d[1]*d[2]))*r.strides[0])
	return l.pool(r.maps[:l.last-l.first+1], r.strides, boxes, size, 0)
}

// levels returns the levels of maps with the given strides for boxes up to a size in pixels, the root of their area.
func (r ROI) levels(strides []float64, size float64) levels {
	l := levels{r.CanonicalSize, r.CanonicalLevel, levelNumber(strides[0]), levelNumber(strides[len(strides)-1])}
	l.last = l.of(float32(size / r.CanonicalSize))
	return l
}

// masked is the number of sampled proposals per image for the mask loss: those that may be objects.
func (r ROI) masked() int { return max(1, int(float64(r.Samples)*r.Positive)) }

// stageOutput is the output of one stage.
type stageOutput struct {
	Boxes    *Node // [batch, n, 4] its input
	Features *Node // [batch·n, units]
	Logits   *Node // [batch, n, classes+1], the last one for background
	Deltas   *Node // [batch, n, classes, 4], or [batch, n, 1, 4] with several stages
}

// boxHeads applies the stages to proposals [batch, n, 4], each after the first to the boxes of the previous one,
// clipped to their images and without gradient.
//
// With several stages, each one's gradient by the maps is divided by their number, because losses are summed.
func (r regions) boxHeads(scope *model.Scope, proposals, sizes *Node) []stageOutput {
	all := make([]stageOutput, len(r.Stages))
	boxes := proposals
	for i := range all {
		if i > 0 {
			by := Reshape(all[i-1].Deltas, boxes.Shape().Dimensions...)                        // of all classes
			boxes = StopGradient(clip(deltas(r.Stages[i-1].Weights).decode(by, boxes), sizes)) // [batch, n, 4]
		}
		x := r.pool(boxes, r.Size)
		if n := float64(len(all)); n > 1 {
			x = IdentityWithCustomGradient(x, func(_, dx *Node) *Node { return DivScalar(dx, n) })
		}
		all[i] = r.stage(scope.In("stage_%d", i), x)
		all[i].Boxes = boxes
		batch, n := boxes.Shape().Dim(0), boxes.Shape().Dim(1)
		all[i].Logits = Reshape(all[i].Logits, batch, n, r.classes+1)
		all[i].Deltas = Reshape(all[i].Deltas, batch, n, -1, 4)
	}
	return all
}

// stage is one box head on x [boxes, size, size, channels]: convolutions, dense layers, and one linear layer each for
// classes and boxes.
func (r regions) stage(scope *model.Scope, x *Node) (j stageOutput) {
	zero := weight.Constant(0)
	x = convStack(scope, x, r.Convs)
	x = Reshape(x, x.Shape().Dim(0), -1)
	for i, units := range r.Dense {
		in := x.Shape().Dim(-1)
		x = activation.Relu(weight.Dense(scope.In("dense_%d", i), x, units, xavier(in), zero))
	}
	boxes := r.classes
	if r.agnostic() {
		boxes = 1
	}
	j.Features = x
	j.Logits = weight.Dense(scope.In("classes"), x, r.classes+1, weight.Normal(0.01), zero)
	j.Deltas = weight.Dense(scope.In("deltas"), x, 4*boxes, weight.Normal(0.001), zero)
	return j
}

// results returns the class probabilities, [batch, n, classes+1], the mean over all stages, and the boxes of the last
// stage, [batch, n, classes or 1, 4], clipped to their images.
func (r regions) results(all []stageOutput, sizes *Node) (scores, boxes *Node) {
	scores = Softmax(all[0].Logits, -1)
	for _, j := range all[1:] {
		scores = Add(scores, Softmax(j.Logits, -1))
	}
	last := all[len(all)-1]
	boxes = deltas(r.Stages[len(all)-1].Weights).decode(last.Deltas, InsertAxes(last.Boxes, 2))
	d := boxes.Shape().Dimensions
	boxes = Reshape(clip(Reshape(boxes, d[0], -1, 4), sizes), d...)
	return DivScalar(scores, float64(len(all))), boxes
}

// losses are the losses of the stages on sampled proposals: cross-entropy of the classes, the mean over all of them;
// and the absolute errors of the deltas of objects, divided by the number of all of them.
//
// Later stages match their boxes with the objects again, by their own IoU, without further sampling; boxes that became
// empty by clipping do not count from then on.
func (r regions) losses(all []stageOutput, in inputs[*Node]) (class, box []*Node) {
	labels, targets := in.Classes, in.Targets
	g := labels.Graph()
	counts := func(mask *Node) *Node { return ConvertDType(mask, dtypes.Float32) }
	background := Scalar(g, dtypes.Int64, r.classes)
	sampled := counts(GreaterOrEqual(labels, ScalarZero(g, dtypes.Int64))) // [batch, n]
	for i, j := range all {
		if i > 0 {
			sampled = Mul(sampled, nonEmpty(j.Boxes))
			labels, targets = r.matched(j.Boxes, in, r.Stages[i].IoU)
		}
		number := ReduceAllSum(sampled)
		oneHot := OneHot(labels, r.classes+1, dtypes.Float32) // [batch, n, classes+1]
		likelihood := ReduceSum(Mul(LogSoftmax(j.Logits, -1), oneHot), -1)
		class = append(class, share(Neg(Mul(likelihood, sampled)), number))

		object := Mul(sampled, counts(LessThan(labels, background))) // [batch, n]
		by := j.Deltas                                               // [batch, n, 1, 4]
		if !r.agnostic() {
			by = Mul(by, InsertAxes(OneHot(labels, r.classes, dtypes.Float32), -1)) // of the class
		}
		by = ReduceSum(by, 2) // [batch, n, 4]
		// Boxes without an object get one whose logarithm is finite.
		is := BroadcastToShape(InsertAxes(GreaterThan(object, ZerosLike(object)), -1), targets.Shape())
		unit := BroadcastToShape(Const(g, [][][]float32{{{0, 0, 1, 1}}}), targets.Shape())
		want := StopGradient(deltas(r.Stages[i].Weights).encode(Where(is, j.Boxes, unit), Where(is, targets, unit)))
		errors := Mul(Abs(Sub(by, want)), InsertAxes(object, -1))
		box = append(box, share(errors, number))
	}
	return class, box
}

// matched returns for boxes [batch, n, 4] the class and the box of the object that each overlaps most, background if by
// less than iou.
func (r regions) matched(boxes *Node, in inputs[*Node], iou float64) (labels, targets *Node) {
	g := boxes.Graph()
	known := InsertAxes(GreaterOrEqual(in.ObjectClasses, ScalarZero(g, dtypes.Int64)), 1) // [batch, 1, objects]
	quality := pairwiseIoU(boxes, in.Objects)                                             // [batch, n, objects]
	quality = Where(BroadcastToShape(known, quality.Shape()), quality, Neg(OnesLike(quality)))
	near := GreaterOrEqual(ReduceMax(quality, -1), Scalar(g, dtypes.Float32, iou)) // [batch, n]
	// One index gives both, so that rounding cannot select the class of one object and the box of another. They are
	// gathered: a product with ones and zeros rounds to the 10 bits of TF32 on CUDA.
	class := InsertAxes(ConvertDType(in.ObjectClasses, dtypes.Float32), -1)
	of := Concatenate([]*Node{in.Objects, class}, -1)                 // [batch, objects, 5]
	both := StopGradient(pick(of, ArgMax(quality, -1, dtypes.Int64))) // [batch, n, 5]
	class = ConvertDType(Squeeze(SliceAxis(both, -1, AxisRange(4, 5)), -1), dtypes.Int64)
	return Where(near, class, BroadcastToShape(Scalar(g, dtypes.Int64, r.classes), class.Shape())),
		SliceAxis(both, -1, AxisRange(0, 4))
}

// masks predicts for boxes [batch, n, 4] mask logits for each class, on a grid of each box: [batch·n, 2·MaskSize,
// 2·MaskSize, classes].
func (r regions) masks(scope *model.Scope, boxes *Node) *Node {
	x := convStack(scope, r.pool(boxes, r.MaskSize), r.Masks)
	last := r.Masks[len(r.Masks)-1]
	x = activation.Relu(double(scope.In("double"), x, last, msra(4*last)))
	return weight.Dense(scope.In("classes"), x, r.classes, weight.Normal(0.001), weight.Constant(0))
}

// ofClass selects from masks [batch·n, side, side, classes] the masks of classes [batch, n]: [batch·n, side, side].
func (r regions) ofClass(masks, classes *Node) *Node {
	oneHot := Reshape(OneHot(classes, r.classes, dtypes.Float32), -1, 1, 1, r.classes)
	return ReduceSum(Mul(masks, oneHot), -1)
}

// maskLoss is the cross-entropy of masks [batch·n, side, side, classes] of the first n sampled proposals, for the class
// of each: the mean over the pixels of objects with a mask.
func (r regions) maskLoss(masks *Node, in inputs[*Node]) *Node {
	g, d := masks.Graph(), in.Masks.Shape().Dimensions // [batch, n, side, side]
	classes := SliceAxis(in.Classes, 1, AxisRange(0, d[1]))
	targets := Reshape(in.Masks, -1, d[2], d[3])
	object := LogicalAnd(GreaterOrEqual(classes, ScalarZero(g, dtypes.Int64)),
		LessThan(classes, Scalar(g, dtypes.Int64, r.classes)))
	counts := Mul(Reshape(ConvertDType(object, dtypes.Float32), -1, 1, 1), MinScalar(AddScalar(targets, 1), 1))
	return share(Mul(crossEntropy(r.ofClass(masks, classes), targets), counts), ReduceAllSum(counts))
}
