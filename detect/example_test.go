// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect_test

import (
	"context"
	"fmt"
	"image"
	"log"
	"os"

	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func ExampleRun_Do() {
	recipe, err := detect.RecipeByName("scenes")
	if err != nil {
		log.Fatal(err)
	}
	recipe.Detector.Backbone.Depth, recipe.Detector.Backbone.Global = 1, []int{0}
	recipe.Steps, recipe.WarmupSteps, recipe.EvalEverySteps, recipe.BatchSize = 1, 0, 1, 2
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	train, err := scenes.Generated{Count: 2, Height: 96, Width: 96, Seed: 1}.Set()
	if err != nil {
		log.Fatal(err)
	}
	run := detect.Run{Backend: gomlxtest.Backend(), Recipe: recipe, Dir: dir, Dataset: "scenes", Train: train}
	trained, _, err := run.Do(context.Background()) // the same call resumes an interrupted run
	if err != nil {
		log.Fatal(err)
	}
	trained.Finalize()
	detector, err := detect.Open(gomlxtest.Backend(), dir)
	if err != nil {
		log.Fatal(err)
	}
	defer detector.Finalize()
	found, err := detector.Detect(image.NewRGBA(image.Rect(0, 0, 50, 40)))
	fmt.Println(len(found), "image,", len(detector.Categories), "categories", err)
	// Output: 1 image, 3 categories <nil>
}
