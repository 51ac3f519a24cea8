// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"errors"
	"runtime"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/sync/errgroup"

	"github.com/wepe-go/wepe/detect/coco"
)

// fewObjects is the number to which the objects of an image are padded. Each larger number, rounded up to a power of
// two, needs its own program, whose compilation takes as long as several steps.
const fewObjects = 8

// filledTo returns the padded number for at most most objects per image.
func filledTo(most int) int {
	n := fewObjects
	for n < most {
		n *= 2
	}
	return n
}

// targets returns the Inputs of a step without its images: the sampled anchors and proposals of each image, and their
// targets in the losses. Images are independent; sampling calls the pick of each in this order: objects and background
// of the anchors, then of the proposals.
func (c Config) targets(annotations []Annotations, anchors []Box, proposals [][]Box, picks func(image int) draw,
) (in Inputs[*tensors.Tensor], err error) {
	most := 0 // maximum number of objects per image
	for _, truth := range annotations {
		most = max(most, len(truth.Boxes))
	}
	most = filledTo(most)
	parts := make([]batch, len(annotations)) // an image each
	var images errgroup.Group
	images.SetLimit(runtime.GOMAXPROCS(0)) // each has the IoU of all pairs of an object and an anchor
	for i, truth := range annotations {
		images.Go(func() error {
			parts[i] = batch{Config: c, side: 2 * c.ROI.MaskSize}
			return parts[i].add(truth, anchors, proposals[i], most, picks(i))
		})
	}
	if err := images.Wait(); err != nil {
		return in, err
	}
	b := batch{side: 2 * c.ROI.MaskSize}
	for _, p := range parts {
		b.sizes, b.masks = append(b.sizes, p.sizes...), append(b.masks, p.masks...)
		b.anchors, b.anchorLabels = append(b.anchors, p.anchors...), append(b.anchorLabels, p.anchorLabels...)
		b.anchorBoxes, b.boxes = append(b.anchorBoxes, p.anchorBoxes...), append(b.boxes, p.boxes...)
		b.classes, b.targets = append(b.classes, p.classes...), append(b.targets, p.targets...)
		b.objects, b.objectClasses = append(b.objects, p.objects...), append(b.objectClasses, p.objectClasses...)
	}
	n, rpn, roi := len(annotations), c.RPN.Samples, c.ROI.Samples
	return Inputs[*tensors.Tensor]{
		Sizes:        tensors.FromFlatDataAndDimensions(b.sizes, n, 2),
		Anchors:      tensors.FromFlatDataAndDimensions(b.anchors, n, rpn),
		AnchorLabels: tensors.FromFlatDataAndDimensions(b.anchorLabels, n, rpn),
		AnchorBoxes:  boxTensor(b.anchorBoxes, n, rpn),
		Boxes:        boxTensor(b.boxes, n, roi), Classes: tensors.FromFlatDataAndDimensions(b.classes, n, roi),
		Targets: boxTensor(b.targets, n, roi),
		Masks:   tensors.FromFlatDataAndDimensions(b.masks, n, c.ROI.masked(), b.side, b.side),
		Objects: boxTensor(b.objects, n, most), ObjectClasses: tensors.FromFlatDataAndDimensions(b.objectClasses, n, most),
	}, nil
}

// batch collects targets image by image, flat.
type batch struct {
	Config
	side                            int // of a mask
	sizes, anchorLabels, masks      []float32
	anchors, classes, objectClasses []int64
	anchorBoxes, boxes              []Box
	targets, objects                []Box
}

// add adds an image, with its objects filled up to a number of most.
func (b *batch) add(truth Annotations, anchors, proposals []Box, most int, pick draw) error {
	b.sizes = append(b.sizes, float32(truth.Rows), float32(truth.Cols))
	b.addAnchors(truth, anchors, pick)
	for k := range most {
		box, class := Box{}, int64(-1)
		if k < len(truth.Boxes) {
			box, class = truth.Boxes[k], int64(truth.Classes[k])
		}
		b.objects, b.objectClasses = append(b.objects, box), append(b.objectClasses, class)
	}
	return b.addProposals(truth, proposals, pick)
}

// addAnchors samples anchors of an image. If there are fewer than RPN.Samples, the rest has label -1.
func (b *batch) addAnchors(truth Annotations, anchors []Box, pick draw) {
	add := func(anchor int, label float32, box Box) {
		b.anchors, b.anchorLabels = append(b.anchors, int64(anchor)), append(b.anchorLabels, label)
		b.anchorBoxes = append(b.anchorBoxes, box)
	}
	of, positive, negative := b.RPN.sample(truth, anchors, pick)
	for _, a := range positive {
		add(a, 1, truth.Boxes[of[a]])
	}
	for _, a := range negative {
		add(a, 0, anchors[a])
	}
	for range b.RPN.Samples - len(positive) - len(negative) {
		add(0, -1, anchors[0])
	}
}

// addProposals samples proposals of an image, and its objects, which train the heads even if no proposal overlaps them.
// If there are fewer than ROI.Samples, the rest has class -1; unknown masks are -1.
func (b *batch) addProposals(truth Annotations, proposals []Box, pick draw) error {
	rows := slices.Concat(proposals, truth.Boxes)
	of, positive, negative := b.ROI.sample(truth, rows, pick)
	for k, row := range slices.Concat(positive, negative) {
		class, target := b.Backbone.Classes, Box{}
		if len(truth.Boxes) > 0 {
			target = truth.Boxes[of[row]]
		}
		if k < len(positive) {
			class = truth.Classes[of[row]]
		}
		b.boxes, b.classes = append(b.boxes, rows[row]), append(b.classes, int64(class))
		b.targets = append(b.targets, target)
	}
	for range b.ROI.Samples - len(positive) - len(negative) {
		b.boxes, b.classes, b.targets = append(b.boxes, Box{}), append(b.classes, -1), append(b.targets, Box{})
	}
	for k := range b.ROI.masked() {
		target := slices.Repeat([]float32{-1}, b.side*b.side)
		if k < len(positive) && truth.Masks != nil && !b.ROI.NoMasks {
			if mask := truth.Masks[of[positive[k]]]; mask != nil {
				known, err := mask.target(rows[positive[k]], b.side)
				switch {
				case err == nil:
					target = known
				case !errors.Is(err, coco.ErrFar): // a sliver of a large object, enlarged: its mask stays unknown
					return err
				}
			}
		}
		b.masks = append(b.masks, target...)
	}
	return nil
}

// sample matches all anchors with the objects of an image and draws the anchors of the loss. of is the object that each
// anchor overlaps most.
func (r RPN) sample(truth Annotations, anchors []Box, pick draw) (of, objects, background []int) {
	of, labels := r.match(truth, anchors)
	objects, background = sampled(labels, r.Samples, r.Positive, pick)
	return of, objects, background
}

func (r RPN) match(truth Annotations, anchors []Box) (of, labels []int) {
	m := matcher{low: float32(r.Low), high: float32(r.High), allowLow: true}
	return m.match(overlaps(truth.Boxes, anchors), len(anchors))
}

// sample does the same for proposals, by the IoU of the first stage.
func (r ROI) sample(truth Annotations, proposals []Box, pick draw) (of, objects, background []int) {
	of, labels := r.match(truth, proposals)
	objects, background = sampled(labels, r.Samples, r.Positive, pick)
	return of, objects, background
}

func (r ROI) match(truth Annotations, proposals []Box) (of, labels []int) {
	iou := float32(r.Stages[0].IoU)
	return matcher{low: iou, high: iou}.match(overlaps(truth.Boxes, proposals), len(proposals))
}
