// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wepe-go/wepe/detect/coco"
)

// An annotation file and a file of detections.
func ExampleEvaluate() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	instances, results := filepath.Join(dir, "instances.json"), filepath.Join(dir, "results.json")
	err = errors.Join(os.WriteFile(instances, []byte(`
		{"images": [{"id": 1, "file_name": "1.jpg", "height": 50, "width": 70}],
		"categories": [{"id": 3, "name": "cat"}],
		"annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [5, 7, 20, 11], "area": 220,
			"iscrowd": 0}]}`), 0o644),
		os.WriteFile(results, []byte(`[{"image_id": 1, "category_id": 3, "bbox": [5, 7, 20, 11], "score": 0.9}]`), 0o644))
	if err != nil {
		panic(err)
	}
	objects, err := coco.Read(instances)
	if err != nil {
		panic(err)
	}
	found, err := coco.ReadResults(results)
	if err != nil {
		panic(err)
	}
	numbers, err := coco.Evaluate(objects, found, false, coco.Areas{})
	fmt.Printf("%s %s %.3f %v\n", objects.Categories[0].Name, coco.StatNames[0], numbers[0], err)
	// Output: cat AP 1.000 <nil>
}
