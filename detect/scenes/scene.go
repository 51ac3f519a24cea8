// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package scenes provides images with objects for training and testing detectors: generated scenes, which need no
// download, and folders with COCO annotations. It augments them by large-scale jitter and draws detections.
//
//	train, err := scenes.Generated{Count: 2000, Height: 96, Width: 96, Seed: 1}.Set()
//	scene, err := train.At(7)                                    // image, boxes, masks
//	jitter := scenes.Jitter{Height: 96, Width: 96, Low: 0.5, High: 2, Flip: 0.5}
//	scene = jitter.Apply(scene, seed, epoch, 7)                  // all scenes get one size
//	err = scenes.Write("shapes", "shapes/instances.json", train) // images and annotations
//	test, err := scenes.Open("val2017", "instances_val2017.json", logger)
//
// Conventions are those of package coco.
package scenes

import (
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
)

// Set is a dataset of scenes.
type Set struct {
	Name       string          // of the file that lists the objects; of generated scenes with seed and number
	SHA256     string          // of that file; "" for generated scenes
	Categories []coco.Category // by ID: the classes of objects
	Len        int
	At         func(index int) (*Scene, error) // may be called concurrently
	Annotated  func() (*coco.Dataset, error)   // the objects of all scenes
	Areas      coco.Areas                      // limits of small, medium and large objects; zero for COCO's
	Rows, Cols int                             // of generated scenes, in pixels

	folder *folder // nil for generated scenes
}

// Scene is an image with objects.
type Scene struct {
	ImageID    int64
	Image      *data.Image
	Rows, Cols int // of the image from its top left corner; the rest, to the right and below, is padding
	Objects    []Object
}

// Object is an annotated or detected object.
type Object struct {
	Class    int // index of its category, sorted by ID
	Box      coco.Box
	Mask     coco.RLE    // of the image with its padding; the zero value is none
	Polygons [][]float64 // of the mask, if the annotation has them; not cut at the border
	Crowd    bool        // several objects under one mask: ignored in training and evaluation
	Score    float64     // of a detection
}

// hasMask reports whether there is a mask.
func (o *Object) hasMask() bool { return o.Mask.Height > 0 }
