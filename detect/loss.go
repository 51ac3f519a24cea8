// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math/rand/v2"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
)

// inputs are the inputs of a training step: tensors on the host, nodes in its graph. Indices and classes are int64, all
// others float32; missing samples have label -1 and are ignored.
type inputs[T any] struct {
	Images T // uint8 [batch, rows, cols, 3], each image at the top left
	Sizes  T // [batch, 2] rows and cols of each image, in pixels

	Anchors      T // [batch, RPN.Samples] indices of sampled anchors
	AnchorLabels T // [batch, RPN.Samples] float32: 1 for an object, 0 for background
	AnchorBoxes  T // [batch, RPN.Samples, 4] the objects' boxes

	Boxes   T // [batch, ROI.Samples, 4] sampled proposals, objects first
	Classes T // [batch, ROI.Samples] their classes, the number of classes for background
	Targets T // [batch, ROI.Samples, 4] the objects' boxes
	Masks   T // [batch, maximum of objects in ROI.Samples, mask, mask] 0 or 1 in the boxes, -1 if unknown

	Objects       T // [batch, n, 4] all objects' boxes, for matching in later stages
	ObjectClasses T // [batch, n]
}

// list returns all inputs, in the order in which inputsOf takes them.
func (in inputs[T]) list() []T {
	return []T{in.Images, in.Sizes, in.Anchors, in.AnchorLabels, in.AnchorBoxes, in.Boxes, in.Classes, in.Targets,
		in.Masks, in.Objects, in.ObjectClasses}
}

// inputsOf is the inverse of list.
func inputsOf[T any](x []T) inputs[T] {
	return inputs[T]{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10]}
}

// inputs returns the inputs of a training step for pixels uint8 [batch, rows, cols, 3] and their ground truth. The
// current network proposes boxes, without drop path; the seed, one per step, samples proposals and anchors.
func (d *Detector) inputs(pixels *tensors.Tensor, truths []truth, seed int64) (in inputs[*tensors.Tensor], err error) {
	c, sizes := d.Recipe.Detector, make([][2]int, len(truths))
	for i, t := range truths {
		sizes[i] = t.size
	}
	s, err := d.propose(pixels, sizes, c.RPN.Before.Train, c.RPN.After.Train)
	defer s.finalize()
	if err != nil {
		return in, err
	}
	anchors, _ := c.anchors(pixels.Shape().Dim(1), pixels.Shape().Dim(2))
	in, err = c.targets(truths, anchors, s.proposals, func(img int) drawer {
		return permuted(rand.New(rand.NewPCG(uint64(seed), uint64(img))))
	})
	in.Images = pixels
	return in, err
}

// losses builds the detector in scope and returns its losses in the order of lossNames, whose sum ViTDet minimizes. All
// gradients are within this graph. Detector.inputs computes its inputs.
func (c Config) losses(scope *model.Scope, in inputs[*Node]) []*Node {
	maps := c.maps(scope, in.Images, in.Sizes)
	logits, by := c.RPN.head(scope.In(rpnScope), maps)
	d := in.Images.Shape().Dimensions
	anchors, _ := c.anchors(d[1], d[2])
	rpnClass, rpnBox := c.RPN.losses(logits, by, constant(logits.Graph(), anchors), in)
	losses := []*Node{rpnClass, rpnBox}

	r, roi := c.regions(maps), scope.In(roiScope)
	class, box := r.losses(r.boxHeads(roi, in.Boxes, in.Sizes), in)
	for i := range class {
		losses = append(losses, class[i], box[i])
	}
	if !c.ROI.NoMasks {
		objects := SliceAxis(in.Boxes, 1, AxisRange(0, in.Masks.Shape().Dim(1))) // objects come first
		losses = append(losses, r.maskLoss(r.masks(roi.In(maskScope), objects), in))
	}
	return losses
}

// lossNames are the names of the losses: rpn_class, rpn_box, class_0, box_0, … of each stage, and mask.
func (c Config) lossNames() []string {
	names := []string{"rpn_class", "rpn_box"}
	for i := range c.ROI.Stages {
		names = append(names, fmt.Sprintf("class_%d", i), fmt.Sprintf("box_%d", i))
	}
	if !c.ROI.NoMasks {
		names = append(names, "mask")
	}
	return names
}

// share is the sum of x divided by a number of samples, a scalar; 0 for no samples.
func share(x, number *Node) *Node { return Div(ReduceAllSum(x), MaxScalar(number, 1)) }

// pick selects from x [batch, n, …] the entries of indices [batch, m]: [batch, m, …].
func pick(x, indices *Node) *Node {
	d := x.Shape().Dimensions
	first := make([]int64, d[0]) // of each image
	for i := range first {
		first[i] = int64(i * d[1])
	}
	indices = Add(indices, InsertAxes(Const(x.Graph(), first), -1))
	rows := additive.Rows(Reshape(x, append([]int{d[0] * d[1], -1}, d[2:]...)...), indices)
	return Reshape(rows, append([]int{d[0], indices.Shape().Dim(1)}, d[2:]...)...)
}

// crossEntropy is the binary cross-entropy of labels 0 to 1 and logits: max(x, 0) - x·label + log(1 + exp(-|x|)).
func crossEntropy(logits, labels *Node) *Node {
	return Add(Sub(MaxScalar(logits, 0), Mul(logits, labels)), Log1P(Exp(Neg(Abs(logits)))))
}
