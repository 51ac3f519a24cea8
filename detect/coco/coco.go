// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package coco reads and writes annotations and results of COCO (Lin et al. 2014, cocodataset.org), encodes masks as
// run lengths, and computes average precision of boxes and masks.
//
//	dataset, err := coco.Read("annotations/instances_val2017.json")
//	detections, err := coco.ReadResults("detections.json")
//	numbers, err := coco.Evaluate(dataset, detections, true, coco.Areas{}) // of masks; cocoapi's twelve: StatNames
//
// Metrics equal pycocotools 2.0.11 (github.com/ppwwyyxx/cocoapi) bit for bit. Annotations of unknown categories or
// images and results of unknown categories are ignored, results of unknown images are an error; a category without
// objects has AP −1 and does not count in means. Malformed files return an error that names file and annotation.
// Segmentations are checked when they are used, so evaluating boxes never fails because of a malformed polygon.
//
// Coordinates are pixels, x to the right, y downwards, from the outer corner of the first pixel. Boxes are x, y, width,
// height; areas are in square pixels.
package coco

import "math"

// Box is x and y of the top left corner, width and height, in pixels.
type Box [4]float64

// Corners returns left, top, right and bottom.
func (b Box) Corners() [4]float64 { return [4]float64{b[0], b[1], b[0] + b[2], b[1] + b[3]} }

// area is width times height.
func (b Box) area() float64 { return b[2] * b[3] }

// boxIoU is the intersection over the union of the areas of two boxes, or over the area of the detection if the object
// is a crowd; 0 for boxes that at most touch. Source: bbIou of maskApi.c.
func boxIoU(detection, object Box, crowd bool) float64 {
	w := math.Min(detection[2]+detection[0], object[2]+object[0]) - math.Max(detection[0], object[0])
	h := math.Min(detection[3]+detection[1], object[3]+object[1]) - math.Max(detection[1], object[1])
	if w <= 0 || h <= 0 {
		return 0
	}
	both, area := float64(w*h), detection.area()
	if crowd {
		return both / area
	}
	return both / (float64(area) + object.area() - both)
}
