// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package coco reads and writes the annotations and results of COCO (Lin et al. 2014, cocodataset.org), holds masks as
// run lengths, and evaluates boxes and masks.
//
//	dataset, err := coco.Read("annotations/instances_val2017.json")
//	results, err := dataset.ReadResults("detections.json") // or dataset.Results(detections)
//	e, err := coco.Evaluate(dataset, results, coco.Params{Masks: true})
//	e.Stats() // the usual twelve numbers, in the order of StatNames
//
// Every rule is that of cocoapi (github.com/cocodataset/cocoapi at 8c9bcc3: pycocotools and common/maskApi.c), whose
// numbers the tests hold it to. Where cocoapi fails, an error names the file and the annotation; where it does
// something, the same is done here: annotations and results of unknown categories, and annotations of unknown images,
// do not count; a category without objects has -1 and no part in any mean; an image without anything is fine.
//
// Coordinates are pixels, x to the right, y downwards, from the outer corner of the first pixel: pixel (row 0, column
// 0) covers 0…1 along both. Boxes are x, y, width, height; areas are square pixels. What is kept out of a file until
// somebody asks for it, the segmentation, is checked only then: evaluating boxes never fails for a broken polygon.
package coco

import "math"

// Box is x and y of the top left corner, width and height, in pixels.
type Box [4]float64

// Corners returns left, top, right and bottom.
func (b Box) Corners() [4]float64 { return [4]float64{b[0], b[1], b[0] + b[2], b[1] + b[3]} }

// FromCorners is the box of left, top, right and bottom.
func FromCorners(c [4]float64) Box { return Box{c[0], c[1], c[2] - c[0], c[3] - c[1]} }

// Area is width times height.
func (b Box) Area() float64 { return b[2] * b[3] }

// boxIoU is the intersection over the union of the areas of two boxes, over the area of the detection alone where the
// object is a crowd; 0 for boxes that at most touch. Source: bbIou of maskApi.c.
func boxIoU(detection, object Box, crowd bool) float64 {
	w := math.Min(detection[2]+detection[0], object[2]+object[0]) - math.Max(detection[0], object[0])
	h := math.Min(detection[3]+detection[1], object[3]+object[1]) - math.Max(detection[1], object[1])
	if w <= 0 || h <= 0 {
		return 0
	}
	both, area := float64(w*h), detection.Area()
	if crowd {
		return both / area
	}
	return both / (float64(area) + object.Area() - both)
}
