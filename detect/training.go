// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"fmt"
	"math/rand/v2"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// Losses builds the detector in scope and returns its losses in the order of LossNames, whose sum ViTDet minimizes. All
// gradients are within this graph. Detector.Inputs computes its inputs.
func (c Config) Losses(scope *model.Scope, in Inputs[*Node]) []*Node {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		panic(err)
	}
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

// Inputs returns the inputs of a training step for pixels uint8 [batch, rows, cols, 3], each image at the top left, and
// their annotations. The current network proposes boxes, without drop path; the seed, one per step, samples proposals
// and anchors.
func (d *Detector) Inputs(pixels *tensors.Tensor, annotations []Annotations, seed int64) (
	in Inputs[*tensors.Tensor], err error) {
	dims := pixels.Shape().Dimensions
	if len(dims) != 4 || dims[0] != len(annotations) || dims[3] != 3 {
		return in, fmt.Errorf("detect: pixels are %s for %d annotations, want uint8 [%[2]d, rows, cols, 3]", pixels.Shape(),
			len(annotations))
	}
	if err := d.Config.CheckCanvas(dims[1], dims[2]); err != nil {
		return in, err
	}
	sizes := make([][2]int, len(annotations))
	for i, truth := range annotations {
		if err := truth.check(dims[1], dims[2], d.Config.Backbone.Classes); err != nil {
			return in, fmt.Errorf("image %d of the batch: %w", i, err)
		}
		sizes[i] = [2]int{truth.Rows, truth.Cols}
	}
	s, err := d.propose(pixels, sizes, d.Config.RPN.Before.Train, d.Config.RPN.After.Train)
	defer s.finalize()
	if err != nil {
		return in, err
	}
	anchors, _ := d.Config.anchors(dims[1], dims[2])
	in, err = d.Config.targets(annotations, anchors, s.proposals, func(img int) draw {
		return permuted(rand.New(rand.NewPCG(uint64(seed), uint64(img))))
	})
	in.Images = pixels
	return in, err
}
