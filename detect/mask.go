// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// masks predicts for boxes [batch, n, 4] the logits of belonging to an object of each class, on a grid of each box:
// [batch·n, 2·MaskSize, 2·MaskSize, classes].
func (r regions) masks(scope *model.Scope, boxes *Node) *Node {
	x := convStack(scope, r.pool(boxes, r.MaskSize), r.Masks)
	last := r.Masks[len(r.Masks)-1]
	x = activation.Relu(double(scope.In("double"), x, last, msra(4*last)))
	return weight.Dense(scope.In("classes"), x, r.classes, weight.Normal(0.001), weight.Constant(0))
}

// ofClass picks from masks [batch·n, side, side, classes] those of classes [batch, n]: [batch·n, side, side].
func (r regions) ofClass(masks, classes *Node) *Node {
	oneHot := Reshape(OneHot(classes, r.classes, dtypes.Float32), -1, 1, 1, r.classes)
	return ReduceSum(Mul(masks, oneHot), -1)
}

// maskLoss is the cross-entropy of masks [batch·n, side, side, classes] for the first n of the sampled proposals, of
// the class that each has: the mean over the pixels of those that are objects and have a mask.
func (r regions) maskLoss(masks *Node, in Inputs[*Node]) *Node {
	g, d := masks.Graph(), in.Masks.Shape().Dimensions // [batch, n, side, side]
	classes := SliceAxis(in.Classes, 1, AxisRange(0, d[1]))
	targets := Reshape(in.Masks, -1, d[2], d[3])
	object := LogicalAnd(GreaterOrEqual(classes, ScalarZero(g, dtypes.Int64)),
		LessThan(classes, Scalar(g, dtypes.Int64, r.classes)))
	counts := Mul(Reshape(ConvertDType(object, dtypes.Float32), -1, 1, 1), MinScalar(AddScalar(targets, 1), 1))
	return share(Mul(crossEntropy(r.ofClass(masks, classes), targets), counts), ReduceAllSum(counts))
}
