// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes_test

import (
	"fmt"
	"log"

	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
)

// A perfect detector, evaluated as COCO does, with area ranges for small images.
func Example() {
	test, err := scenes.Generated{Count: 20, Height: 64, Width: 96, Seed: 1}.Set()
	if err != nil {
		log.Fatal(err)
	}
	var found []coco.Detection
	for i := range test.Len {
		scene, err := test.At(i)
		if err != nil {
			log.Fatal(err)
		}
		for _, o := range scene.Objects {
			found = append(found, coco.Detection{ImageID: scene.ImageID, CategoryID: test.Categories[o.Class].ID,
				Segmentation: o.Mask.Segmentation(), Score: 0.9})
		}
	}
	truth, err := test.Annotated()
	if err != nil {
		log.Fatal(err)
	}
	numbers, err := coco.Evaluate(truth, found, true, test.Areas)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("mask AP %.3f\n", numbers[0])
	// Output: mask AP 1.000
}
