// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/sync/errgroup"

	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
)

// truth is the ground truth of an image at the top left of its canvas.
type truth struct {
	size    [2]int // rows and columns in pixels
	boxes   []rect
	classes []int
	masks   []maskTarget // of the objects, nil where unknown
}

// maskTarget returns the part of an object's mask within a box, side × side cells row by row, 0 or 1.
type maskTarget func(box rect, side int) ([]float32, error)

// truthOf returns the ground truth of a scene, whose objects are of some classes, without crowds, which are not trained
// on.
func truthOf(s *scenes.Scene, classes int) (t truth, err error) {
	t.size = [2]int{s.Rows, s.Cols}
	for _, o := range s.Objects {
		c := o.Box.Corners()
		box := rect{float32(c[0]), float32(c[1]), float32(c[2]), float32(c[3])}
		if o.Crowd || box.empty() {
			continue
		}
		if o.Class < 0 || o.Class >= classes {
			return t, fmt.Errorf("detect: an object of image %d has class %d, want 0 to %d", s.ImageID, o.Class, classes-1)
		}
		t.boxes, t.classes, t.masks = append(t.boxes, box), append(t.classes, o.Class), append(t.masks, maskOf(o))
	}
	return t, nil
}

func maskOf(o scenes.Object) maskTarget {
	switch {
	case o.Polygons != nil:
		return func(box rect, side int) ([]float32, error) { return polygonTarget(o.Polygons, box, side) }
	case o.Mask.Height > 0:
		pixels := o.Mask.Decode()
		return func(box rect, side int) ([]float32, error) {
			return bitmapTarget(pixels, o.Mask.Height, o.Mask.Width, box, side), nil
		}
	}
	return nil
}

// polygonTarget is a maskTarget by COCO's rule: the polygons are moved into the box, scaled to the cells and filled.
func polygonTarget(polygons [][]float64, box rect, side int) ([]float32, error) {
	left, top := float64(box[0]), float64(box[1])
	across := float64(side) / max(float64(box[2])-left, 0.1)
	down := float64(side) / max(float64(box[3])-top, 0.1)
	moved := coco.Segmentation{Polygons: make([][]float64, len(polygons))}
	for k, polygon := range polygons {
		for i, x := range polygon {
			if i%2 == 0 {
				x = (x - left) * across
			} else {
				x = (x - top) * down
			}
			moved.Polygons[k] = append(moved.Polygons[k], x)
		}
	}
	mask, err := moved.Mask(side, side)
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	out := make([]float32, side*side)
	for i, in := range mask.Decode() {
		if in {
			out[i] = 1
		}
	}
	return out, nil
}

// bitmapTarget is a maskTarget of the pixels of an image by ROIAlign: a cell is 1 where the mean over its samples is at
// least ½.
func bitmapTarget(pixels []bool, rows, cols int, box rect, side int) []float32 {
	down, across := binWeights(box[1], box[3], side, rows), binWeights(box[0], box[2], side, cols)
	out, line := make([]float32, side*side), make([]float32, cols)
	for i := range side {
		clear(line)
		for row, w := range down[i] {
			if w == 0 {
				continue
			}
			for col, in := range pixels[row*cols : (row+1)*cols] {
				if in {
					line[col] += w
				}
			}
		}
		for j := range side {
			sum := float32(0)
			for col, w := range across[j] {
				sum += w * line[col]
			}
			if sum >= 0.5 {
				out[i*side+j] = 1
			}
		}
	}
	return out
}

// binWeights is roiAlign.weights on the host, for a map of stride 1 with samples by size: [bins][length].
func binWeights(begin, end float32, bins, length int) [][]float32 {
	start := begin - 0.5
	bin := (end - 0.5 - start) / float32(bins)
	samples := int(math.Ceil(float64(bin)))
	weights := make([][]float32, bins)
	for i := range weights {
		weights[i] = make([]float32, length)
		for k := range samples {
			x := start + float32(i)*bin + (float32(k)+0.5)*(bin/float32(samples))
			if x < -1 || x > float32(length) {
				continue
			}
			x = min(max(x, 0), float32(length-1))
			cell := int(x)
			part := x - float32(cell)
			weights[i][cell] += (1 - part) / float32(samples)
			if cell+1 < length {
				weights[i][cell+1] += part / float32(samples)
			}
		}
	}
	return weights
}

// Labels of a match.
const (
	matchNone    = 0  // background
	matchIgnored = -1 // between the thresholds
	matchObject  = 1
)

// matcher assigns boxes to objects by their overlap.
type matcher struct {
	low, high float32 // below low is background, from high on an object, between them ignored
	allowLow  bool    // whether the best boxes of an object match it below low
}

func (r RPN) matcher() matcher { return matcher{float32(r.NegIoU), float32(r.PosIoU), true} }
func (r ROI) matcher() matcher {
	return matcher{float32(r.Stages[0].IoU), float32(r.Stages[0].IoU), false}
}

// match returns for each of n boxes the object with the largest overlap, the first of equal ones, and a label.
// quality[object][box] is an IoU. Without objects, all boxes are background of object 0.
//
// With allowLow every box with an object's best quality becomes matchObject, of the object with which it overlaps most,
// possibly another one; for an object without any overlap these are all boxes that do not overlap it.
func (m matcher) match(quality [][]float32, n int) (objects []int, labels []int) {
	objects, labels = make([]int, n), make([]int, n)
	if len(quality) == 0 {
		return objects, labels
	}
	for box := range n {
		best := quality[0][box]
		for object, row := range quality {
			if row[box] > best {
				best, objects[box] = row[box], object
			}
		}
		switch {
		case best >= m.high:
			labels[box] = matchObject
		case best >= m.low:
			labels[box] = matchIgnored
		}
	}
	if m.allowLow {
		for _, row := range quality {
			best := slices.Max(row)
			for box, q := range row {
				if q == best {
					labels[box] = matchObject
				}
			}
		}
	}
	return objects, labels
}

// overlaps returns the IoU of each object with each box, [object][box].
func overlaps(objects, boxes []rect) [][]float32 {
	quality := make([][]float32, len(objects))
	for i, object := range objects {
		quality[i] = make([]float32, len(boxes))
		for j, box := range boxes {
			quality[i][j] = boxIoU(object, box)
		}
	}
	return quality
}

// drawer picks n of some indices.
type drawer func(from []int, n int) []int

// permuted draws the first elements of permutations.
func permuted(r *rand.Rand) drawer {
	return func(from []int, n int) (picked []int) {
		for _, i := range r.Perm(len(from))[:n] {
			picked = append(picked, from[i])
		}
		return picked
	}
}

// sampled draws up to n indices of labels, at most a share of objects, the rest background. Ignored labels are not
// drawn.
func sampled(labels []int, n int, share float64, pick drawer) (objects, background []int) {
	var of [2][]int
	for i, label := range labels {
		if label != matchIgnored {
			of[label] = append(of[label], i)
		}
	}
	objects = pick(of[matchObject], min(len(of[matchObject]), int(float64(n)*share)))
	return objects, pick(of[matchNone], min(len(of[matchNone]), n-len(objects)))
}

// filledTo returns the number to which the objects of an image are padded, for at most most per image: 8, or a larger
// power of two. Each needs its own program, whose compilation takes as long as several steps.
func filledTo(most int) int { return max(8, 1<<bits.Len(uint(max(1, most)-1))) }

// batch contains targets of all images, flat; each image fills its part.
type batch struct {
	Config
	side, most                      int // of a mask; number of objects to which an image's are filled up
	sizes, anchorLabels, masks      []float32
	anchors, classes, objectClasses []int64
	anchorBoxes, boxes              []rect
	targets, objects                []rect
}

// targets returns the inputs of a step without its images: the sampled anchors and proposals of each image, and their
// targets in the losses. Images are independent; sampling calls the pick of each in this order: objects and background
// of the anchors, then of the proposals.
func (c Config) targets(truths []truth, anchors []rect, proposals [][]rect, picks func(image int) drawer,
) (in inputs[*tensors.Tensor], err error) {
	most := filledTo(0) // objects per image
	for _, t := range truths {
		most = max(most, filledTo(len(t.boxes)))
	}
	n, rpn, roi, side := len(truths), c.RPN.Samples, c.ROI.Samples, 2*c.ROI.MaskSize
	b := batch{Config: c, side: side, most: most, sizes: make([]float32, 2*n),
		anchors: make([]int64, n*rpn), anchorBoxes: slices.Repeat(anchors[:1], n*rpn),
		anchorLabels: slices.Repeat([]float32{-1}, n*rpn), // missing, as below
		boxes:        make([]rect, n*roi), targets: make([]rect, n*roi), classes: slices.Repeat([]int64{-1}, n*roi),
		masks:   slices.Repeat([]float32{-1}, n*c.ROI.masked()*side*side),
		objects: make([]rect, n*most), objectClasses: slices.Repeat([]int64{-1}, n*most)}
	var images errgroup.Group
	images.SetLimit(runtime.GOMAXPROCS(0)) // each has the IoU of all pairs of an object and an anchor
	for i, t := range truths {
		images.Go(func() error {
			pick := picks(i)
			b.sizes[2*i], b.sizes[2*i+1] = float32(t.size[0]), float32(t.size[1])
			for k, box := range t.boxes {
				b.objects[i*most+k], b.objectClasses[i*most+k] = box, int64(t.classes[k])
			}
			b.sampleAnchors(i, t, anchors, pick)
			return b.sampleProposals(i, t, proposals[i], pick)
		})
	}
	if err := images.Wait(); err != nil {
		return in, err
	}
	return inputs[*tensors.Tensor]{
		Sizes:        tensors.FromFlatDataAndDimensions(b.sizes, n, 2),
		Anchors:      tensors.FromFlatDataAndDimensions(b.anchors, n, rpn),
		AnchorLabels: tensors.FromFlatDataAndDimensions(b.anchorLabels, n, rpn),
		AnchorBoxes:  boxTensor(b.anchorBoxes, n, rpn),
		Boxes:        boxTensor(b.boxes, n, roi), Classes: tensors.FromFlatDataAndDimensions(b.classes, n, roi),
		Targets: boxTensor(b.targets, n, roi),
		Masks:   tensors.FromFlatDataAndDimensions(b.masks, n, c.ROI.masked(), side, side),
		Objects: boxTensor(b.objects, n, most), ObjectClasses: tensors.FromFlatDataAndDimensions(b.objectClasses, n, most),
	}, nil
}

// sampleAnchors draws the anchors of the loss in image i.
func (b *batch) sampleAnchors(i int, t truth, anchors []rect, pick drawer) {
	of, labels := b.RPN.matcher().match(overlaps(t.boxes, anchors), len(anchors))
	positive, negative := sampled(labels, b.RPN.Samples, b.RPN.Positive, pick)
	for k, anchor := range slices.Concat(positive, negative) {
		at := i*b.RPN.Samples + k
		b.anchors[at], b.anchorLabels[at], b.anchorBoxes[at] = int64(anchor), 0, anchors[anchor]
		if k < len(positive) {
			b.anchorLabels[at], b.anchorBoxes[at] = 1, t.boxes[of[anchor]]
		}
	}
}

// sampleProposals draws the proposals of the losses in image i, also its objects, which train the heads even if no
// proposal overlaps them.
func (b *batch) sampleProposals(i int, t truth, proposals []rect, pick drawer) error {
	all := slices.Concat(proposals, t.boxes)
	of, labels := b.ROI.matcher().match(overlaps(t.boxes, all), len(all))
	positive, negative := sampled(labels, b.ROI.Samples, b.ROI.Positive, pick)
	for k, row := range slices.Concat(positive, negative) {
		at := i*b.ROI.Samples + k
		b.boxes[at], b.classes[at] = all[row], int64(b.Backbone.Classes)
		if len(t.boxes) > 0 {
			b.targets[at] = t.boxes[of[row]]
		}
		if k >= len(positive) {
			continue
		}
		b.classes[at] = int64(t.classes[of[row]])
		if mask := t.masks[of[row]]; mask != nil && !b.ROI.NoMasks {
			known, err := mask(all[row], b.side)
			if errors.Is(err, coco.ErrFar) { // a sliver of a large object, enlarged: its mask stays unknown
				continue
			}
			if err != nil {
				return err
			}
			copy(b.masks[(i*b.ROI.masked()+k)*b.side*b.side:], known)
		}
	}
	return nil
}
