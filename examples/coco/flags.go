// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	detection "github.com/wepe-go/wepe/detect/train"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/study"
	"github.com/wepe-go/wepe/vit"
)

// options are what the flags say.
type options struct {
	data, from  string
	checkpoint  string
	recipe      detection.Recipe
	positions   []string
	seeds       int
	sizes       [][2]int
	train, test int // generated scenes
	shapes      int // in each of them at most
	write       string
	predict     []string
	score       float64
}

// parse reads the flags and refuses what makes no sense, in one line.
func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("coco", flag.ContinueOnError)
	name := flags.String("recipe", "scenes", "one of "+strings.Join(detection.Names(), ", "))
	settings := flags.String("set", "",
		`changes to the recipe, as "steps=300;detector.backbone.width=96;wepe_mode=release"`)
	positions := flags.String("position", "", "encodings, of "+strings.Join(vit.PositionNames(), ",")+", or A+B of "+
		"two that act in different places; default the recipe's")
	flags.IntVar(&o.seeds, "seeds", 1, "trainings of each encoding, paired by seed; 3 or more for a result")
	flags.StringVar(&o.data, "data", "", "directory as COCO has it, annotations/instances_{train,val}2017.json beside "+
		"train2017 and val2017; default generated scenes")
	flags.StringVar(&o.from, "from", "", "pretrained ViT for the backbone: a directory of a run, a file or directory of "+
		"Hugging Face's, timm's or Google's, or hf://owner/name[@revision]")
	flags.IntVar(&o.train, "train", 8000, "generated scenes to train on")
	flags.IntVar(&o.test, "test", 200, "generated scenes to test on, of each size")
	flags.IntVar(&o.shapes, "shapes", 6, "objects of a generated scene at most")
	flags.StringVar(&o.write, "write", "", "directory to write the generated scenes to, as -data reads them, in place of "+
		"training; of -shapes 1 the pictures are in a folder for each class, too")
	flags.Func("sizes", "sizes of the test pictures, height x width, as 96x96,60x156; default the training's",
		program.Into(&o.sizes, study.ParseSizes))
	flags.StringVar(&o.checkpoint, "checkpoint", "runs/coco", "directory for checkpoints, rows, results and pages")
	predict := flags.String("predict", "", "picture files, separated by commas: find what is in them, and train nothing")
	flags.Float64Var(&o.score, "score", 0.5, "of -predict: smaller ones are left out")
	if err := program.Parse(flags, "trains detectors with different position encodings.", args); err != nil {
		return o, err
	}
	if o.recipe, err = detection.Named(*name); err != nil {
		return o, err
	}
	own := o.recipe.Detector.Backbone.Position
	if o.recipe, err = o.recipe.Set(*settings); err != nil {
		return o, fmt.Errorf("-set: %w", err)
	}
	if o.recipe.Detector.Backbone.Position != own {
		return o, errors.New("-set detector.backbone.position: -position names the encodings")
	}
	o.positions = []string{own}
	if *positions != "" {
		if o.positions, err = study.ParsePositions(*positions); err != nil {
			return o, fmt.Errorf("-position: %w", err)
		}
	}
	o.predict = study.Split(*predict)
	switch {
	case *predict != "" && len(o.predict) == 0:
		return o, errors.New("-predict names no file: want some, as a.png,b.jpg")
	case o.shapes < 1 || o.shapes > 6:
		return o, fmt.Errorf("-shapes is %d, want 1 to 6", o.shapes)
	case o.write != "" && (o.data != "" || len(o.predict) > 0):
		return o, errors.New("-write writes generated scenes: want no -data and no -predict beside it")
	case o.seeds < 1 || o.seeds > 1000:
		return o, fmt.Errorf("-seeds is %d, want 1 to 1000", o.seeds)
	case min(o.train, o.test) < 1 || max(o.train, o.test) > 1e6:
		return o, fmt.Errorf("-train is %d, -test %d: want 1 to 1e6", o.train, o.test)
	case !(o.score >= 0 && o.score <= 1):
		return o, fmt.Errorf("-score is %g, want 0 to 1", o.score)
	}
	return o, nil
}

// root is the directory of a recipe's runs, dir that of one.
func (o options) root() string { return filepath.Join(o.checkpoint, o.recipe.Name) }

func (o options) dir(position string, seed int64) string {
	return filepath.Join(o.root(), fmt.Sprintf("%s-seed%d", position, seed))
}
