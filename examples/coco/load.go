// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"

	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune/detection"
)

// load finds or generates the scenes. No test scene is among those trained on, nor a held-out one among either:
// generated ones are of other seeds.
func (o options) load() (run detection.Run, err error) {
	run.Recipe = o.recipe
	if o.data != "" {
		return o.folder(run)
	}
	b := o.recipe.Detector.Backbone
	generate := func(count int, seed int64, size [2]int) scenes.Generated {
		return scenes.Generated{Count: count, Height: size[0], Width: size[1], Seed: seed}
	}
	const forTraining, forTests, forHeld = 1, 2, 3 // seeds
	own := [2]int{b.ImageRows, b.ImageCols}
	train := generate(o.train, forTraining, own)
	if err := train.Validate(); err != nil {
		return run, err
	}
	run.Dataset, run.Train = "scenes", train
	held, err := detection.Generated(generate(min(50, o.test), forHeld, own))
	if err != nil {
		return run, err
	}
	run.Held = &held
	sizes := o.sizes
	if sizes == nil {
		sizes = [][2]int{own}
	}
	for _, size := range sizes {
		test, err := detection.Generated(generate(o.test, forTests, size))
		if err != nil {
			return run, err
		}
		run.Tests = append(run.Tests, test)
	}
	return run, nil
}

// folder reads COCO's training and validation pictures. Nothing is measured during the training, which has no pictures
// to spare.
func (o options) folder(run detection.Run) (detection.Run, error) {
	open := func(part string) (*scenes.Folder, error) {
		return scenes.Open(filepath.Join(o.data, part), filepath.Join(o.data, "annotations", "instances_"+part+".json"))
	}
	train, err := open("train2017")
	if err != nil {
		return run, err
	}
	test, err := open("val2017")
	if err != nil {
		return run, err
	}
	run.Dataset, run.Train = train.Dataset.Name, train.Training()
	run.Tests = []detection.Test{detection.Folder(test)}
	for i, size := range o.sizes {
		if i > 0 {
			run.Tests = append(run.Tests, detection.Folder(test))
		}
		run.Tests[i].Rows, run.Tests[i].Cols = size[0], size[1]
	}
	return run, nil
}
