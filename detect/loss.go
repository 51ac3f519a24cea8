// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
)

// Inputs are the inputs of a training step: tensors on the host, nodes in its graph. Indices and classes are int64, all
// others float32; missing samples have label -1 and are ignored.
type Inputs[T any] struct {
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

// List returns all inputs, in the order in which InputsOf takes them.
func (in Inputs[T]) List() []T {
	return []T{in.Images, in.Sizes, in.Anchors, in.AnchorLabels, in.AnchorBoxes, in.Boxes, in.Classes, in.Targets,
		in.Masks, in.Objects, in.ObjectClasses}
}

// InputsOf is the inverse of Inputs.List.
func InputsOf[T any](x []T) Inputs[T] {
	return Inputs[T]{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10]}
}

// LossNames are the names of the losses: rpn_class, rpn_box, class_0, box_0, … of each stage, and mask.
func (c Config) LossNames() []string {
	c = c.WithDefaults()
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
