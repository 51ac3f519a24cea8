// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco_test

import (
	"fmt"
	"os"

	"github.com/wepe-go/wepe/detect/coco"
)

// One of two objects is detected, without false detections: precision 1 up to recall 1/2.
func ExampleEvaluate() {
	objects := &coco.Dataset{Images: []coco.Image{{ID: 1, Height: 50, Width: 70}}, Categories: []coco.Category{{ID: 3}},
		Annotations: []coco.Annotation{
			{ID: 1, ImageID: 1, CategoryID: 3, Box: coco.Box{5, 7, 20, 11}, Area: 220},
			{ID: 2, ImageID: 1, CategoryID: 3, Box: coco.Box{40, 20, 13, 17}, Area: 221}}}
	detections := []coco.Detection{{ImageID: 1, CategoryID: 3, Box: &coco.Box{5, 7, 20, 11}, Score: 0.9}}
	numbers, err := coco.Evaluate(objects, detections, coco.Params{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %.3f\n", coco.StatNames[0], numbers[0])
	// Output: AP 0.505
}

func ExampleWriteResults() {
	found := []coco.Detection{{ImageID: 1, CategoryID: 3, Box: &coco.Box{5, 7, 20, 11}, Score: 0.5}}
	if err := coco.WriteResults(os.Stdout, found); err != nil {
		panic(err)
	}
	// Output:
	// [
	// {"image_id":1,"category_id":3,"bbox":[5,7,20,11],"score":0.5}]
}
