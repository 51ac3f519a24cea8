// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
)

// fewObjects is what pictures with fewer objects are filled up to. Each number of objects beyond it, rounded up, is a
// program of its own, and compiling takes as long as some steps.
const fewObjects = 8

// targets are the Inputs of a step but its images: what of each picture's anchors and proposals is sampled, and what
// the losses want of it. Sampling draws by picks, one after the other: objects and background of the anchors, then of
// the proposals, picture by picture.
func (c Config) targets(truths []Truth, anchors []Box, proposals [][]Box, picks func(picture int) draw,
) (in Inputs[*tensors.Tensor], err error) {
	batch, rpn, roi, classes := len(truths), c.RPN, c.ROI, c.Backbone.Classes
	side, masked := 2*roi.MaskSize, roi.masked()
	most := fewObjects // objects of a picture, rounded up so that graphs are few
	for _, truth := range truths {
		for most < len(truth.Boxes) {
			most *= 2
		}
	}
	var sizes, anchorLabels, masks []float32
	var anchorIndices, boxClasses, objectClasses []int64
	var anchorBoxes, boxes, boxTargets, objects []Box
	for i, truth := range truths {
		pick := picks(i)
		sizes = append(sizes, float32(truth.Rows), float32(truth.Cols))

		of, positive, negative := rpn.sample(truth, anchors, pick)
		for _, a := range positive {
			anchorIndices, anchorBoxes = append(anchorIndices, int64(a)), append(anchorBoxes, truth.Boxes[of[a]])
		}
		for _, a := range negative {
			anchorIndices, anchorBoxes = append(anchorIndices, int64(a)), append(anchorBoxes, anchors[a])
		}
		anchorLabels = append(anchorLabels, slices.Repeat([]float32{1}, len(positive))...)
		anchorLabels = append(anchorLabels, make([]float32, len(negative))...)
		for range rpn.Samples - len(positive) - len(negative) {
			anchorIndices, anchorLabels = append(anchorIndices, 0), append(anchorLabels, -1)
			anchorBoxes = append(anchorBoxes, anchors[0])
		}

		rows := slices.Concat(proposals[i], truth.Boxes) // objects train the heads even where no proposal finds them
		of, positive, negative = roi.sample(truth, rows, pick)
		for k, row := range slices.Concat(positive, negative) {
			class, target := classes, Box{}
			if len(truth.Boxes) > 0 {
				target = truth.Boxes[of[row]]
			}
			if k < len(positive) {
				class = truth.Classes[of[row]]
			}
			boxes, boxClasses = append(boxes, rows[row]), append(boxClasses, int64(class))
			boxTargets = append(boxTargets, target)
		}
		for range roi.Samples - len(positive) - len(negative) {
			boxes, boxClasses, boxTargets = append(boxes, Box{}), append(boxClasses, -1), append(boxTargets, Box{})
		}
		for k := range masked {
			target := slices.Repeat([]float32{-1}, side*side)
			if k < len(positive) && truth.Masks != nil && !roi.NoMasks {
				if mask := truth.Masks[of[positive[k]]]; mask != nil {
					if target, err = mask.Target(rows[positive[k]], side); err != nil {
						return in, err
					}
				}
			}
			masks = append(masks, target...)
		}

		for k := range most {
			box, class := Box{}, int64(-1)
			if k < len(truth.Boxes) {
				box, class = truth.Boxes[k], int64(truth.Classes[k])
			}
			objects, objectClasses = append(objects, box), append(objectClasses, class)
		}
	}
	in.Sizes = tensors.FromFlatDataAndDimensions(sizes, batch, 2)
	in.Anchors = tensors.FromFlatDataAndDimensions(anchorIndices, batch, rpn.Samples)
	in.AnchorLabels = tensors.FromFlatDataAndDimensions(anchorLabels, batch, rpn.Samples)
	in.AnchorBoxes = boxTensor(anchorBoxes, batch, rpn.Samples)
	in.Boxes = boxTensor(boxes, batch, roi.Samples)
	in.Classes = tensors.FromFlatDataAndDimensions(boxClasses, batch, roi.Samples)
	in.Targets = boxTensor(boxTargets, batch, roi.Samples)
	in.Masks = tensors.FromFlatDataAndDimensions(masks, batch, masked, side, side)
	in.Objects = boxTensor(objects, batch, most)
	in.ObjectClasses = tensors.FromFlatDataAndDimensions(objectClasses, batch, most)
	return in, nil
}

// sample matches all anchors with the objects of a picture and draws those of its loss. of says which object each
// anchor overlaps best.
func (r RPN) sample(truth Truth, anchors []Box, pick draw) (of, objects, background []int) {
	of, labels := r.match(truth, anchors)
	objects, background = sampled(labels, r.Samples, r.Positive, pick)
	return of, objects, background
}

func (r RPN) match(truth Truth, anchors []Box) (of, labels []int) {
	m := matcher{low: float32(r.Low), high: float32(r.High), allowLow: true}
	return m.match(overlaps(truth.Boxes, anchors), len(anchors))
}

// sample does so for proposals, by the IoU of the first stage.
func (r ROI) sample(truth Truth, proposals []Box, pick draw) (of, objects, background []int) {
	of, labels := r.match(truth, proposals)
	objects, background = sampled(labels, r.Samples, r.Positive, pick)
	return of, objects, background
}

func (r ROI) match(truth Truth, proposals []Box) (of, labels []int) {
	iou := float32(r.Stages[0].IoU)
	return matcher{low: iou, high: iou}.match(overlaps(truth.Boxes, proposals), len(proposals))
}
