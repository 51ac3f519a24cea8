// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"context"
	"fmt"
	"image/png"
	"log"
	"os"

	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/detect/train"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// A trained detector detects objects in an image. Without an expected output this is compiled and not run: it needs the
// directory of a run.
//
//nolint:ineffassign,wastedassign // without its checks
func ExampleOpen() {
	detector, err := train.Open(gomlxtest.Backend(), "runs/coco/scenes/wepe-seed0")
	if err != nil {
		log.Fatal(err)
	}
	defer detector.Finalize()
	file, err := os.Open("image.png")
	img, err := png.Decode(file)
	found, err := detector.Detect(img)
	for _, d := range found[0] { // of the first image, the best first
		fmt.Println(detector.Categories[d.Class].Name, d.Score, d.Box, d.Mask.Pixels[0])
	}
}

// A complete training. It takes minutes and is not run here.
//
//nolint:ineffassign,wastedassign // without its checks
func ExampleRun() {
	recipe, err := train.Named("scenes")
	test, err := train.Generated(scenes.Generated{Count: 200, Height: 96, Width: 96, Seed: 2})
	run := train.Run{Backend: gomlxtest.Backend(), Recipe: recipe, Dir: "runs/first", Dataset: "scenes",
		Train: scenes.Generated{Count: 8000, Height: 96, Width: 96, Seed: 1}, Tests: []train.Test{test}}
	trained, rows, err := run.Do(context.Background()) // the same call resumes an interrupted run
	if err != nil {
		log.Fatal(err)
	}
	defer trained.Finalize()
	fmt.Println(rows[0].Boxes["AP"], rows[0].Masks["AP"])
}
