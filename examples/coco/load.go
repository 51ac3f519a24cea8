// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"github.com/wepe-go/wepe/detect/scenes"
	detection "github.com/wepe-go/wepe/detect/train"
	"github.com/wepe-go/wepe/internal/program"
)

// Seeds of generated scenes.
const forTraining, forTests, forValidation = 1, 2, 3

func (o options) generated(count int, seed int64, size [2]int) scenes.Generated {
	g := scenes.Generated{Count: count, Height: size[0], Width: size[1], Seed: seed}
	if o.shapes != 6 {
		g.Most = o.shapes
	}
	return g
}

// size is that of the detector's pictures.
func (o options) size() [2]int {
	b := o.recipe.Detector.Backbone
	return [2]int{b.ImageRows, b.ImageCols}
}

// The parts of COCO.
const trainPart, testPart = "train2017", "val2017"

// part is where a part's pictures and annotations are below a directory.
func part(dir, name string) (pictures, instances string) {
	return filepath.Join(dir, name), filepath.Join(dir, "annotations", "instances_"+name+".json")
}

// writeScenes writes the scenes to train on and those to test on, as folder reads them.
func (o options) writeScenes() error {
	for _, written := range []struct {
		name string
		scenes.Generated
	}{
		{trainPart, o.generated(o.train, forTraining, o.size())}, {testPart, o.generated(o.test, forTests, o.size())},
	} {
		pictures, instances := part(o.write, written.name)
		if err := scenes.Write(pictures, instances, written.Generated); err != nil {
			return err
		}
		program.Printf("%d pictures in %s, their objects in %s\n", written.Count, pictures, instances)
	}
	return nil
}

// load finds or generates the scenes. No test scene is among those trained on, nor a held-out one among either:
// generated ones are of other seeds.
func (o options) load() (run detection.Run, err error) {
	run.Recipe = o.recipe
	if o.data != "" {
		return o.folder(run)
	}
	own := o.size()
	train := o.generated(o.train, forTraining, own)
	if err := train.Validate(); err != nil {
		return run, err
	}
	run.Dataset, run.Train = "scenes", train
	if o.shapes != 6 {
		run.Dataset = fmt.Sprintf("scenes-%d", o.shapes)
	}
	validation, err := detection.Generated(o.generated(min(50, o.test), forValidation, own))
	if err != nil {
		return run, err
	}
	run.Validation = &validation
	sizes := o.sizes
	if sizes == nil {
		sizes = [][2]int{own}
	}
	for _, size := range sizes {
		test, err := detection.Generated(o.generated(o.test, forTests, size))
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
	train, err := scenes.Open(part(o.data, trainPart))
	if err != nil {
		return run, err
	}
	test, err := scenes.Open(part(o.data, testPart))
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
