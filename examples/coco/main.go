// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command coco trains detectors with the position encodings of your choice: ViTDet with Mask R-CNN, on generated scenes
// that need no download, or with -data on COCO or a folder of your own.
//
//	go run ./examples/coco                                         boxes and masks of shapes, in minutes
//	go run ./examples/coco -position none,learned,wepe -seeds 3    encodings compared
//	go run ./examples/coco -sizes 96x96,60x156                     tested at other sizes than trained
//	go run ./examples/coco -predict a.png,b.jpg                    what a trained detector finds in your pictures
//	go run ./examples/coco -write DIR                              the generated scenes as files, for -data DIR
//	go run ./examples/coco -recipe vitdet-b -data COCO -from MAE   the published recipes, an accelerator's work
//
// The same command goes on where an interrupted one stopped. docs/detection.md says what each does.
package main

import (
	"context"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/scenes"
	detection "github.com/wepe-go/wepe/detect/train"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/backend"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/report"
)

func main() { program.Main("coco", parse, options.saves, run) }

// saves says whether there is something to save when a signal comes.
func (o options) saves() bool { return len(o.predict) == 0 && o.write == "" }

// run trains what is not trained yet, measures and shows it.
func run(ctx context.Context, o options) error {
	if o.write != "" {
		return o.writeScenes()
	}
	backend, err := backend.Open()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	if len(o.predict) > 0 {
		return o.find(backend)
	}
	train, err := o.load()
	if err != nil {
		return err
	}
	train.Backend = backend
	if train.From, err = program.Fetch(ctx, o.from); err != nil {
		return err
	}
	var rows []report.Result
	for _, position := range o.positions {
		for seed := range int64(o.seeds) {
			one := train
			one.Recipe.Detector.Backbone.Position, one.Seed = position, seed
			one.Dir = o.dir(position, seed)
			title := fmt.Sprintf("%s seed %d", position, seed)
			one.Progress, one.Logger = program.Progress(title), program.Logger().With("run", title)
			own, err := trainOne(ctx, one)
			if err != nil {
				return err
			}
			rows = append(rows, own...)
		}
	}
	program.Printf("\n%s, recipe %s, percent\n\n%s\n", train.Dataset, o.recipe.Name, detection.Table(rows).Text())
	program.Printf("pages: %s\n", filepath.Join(o.root(), "*", finetune.PageFile))
	return nil
}

// trainOne is one training with its page.
func trainOne(ctx context.Context, one detection.Run) ([]report.Result, error) {
	model, rows, err := one.Do(ctx)
	if err != nil {
		return nil, err
	}
	defer model.Finalize()
	return rows, one.Page(model, rows)
}

// find draws what the first trained detector finds in picture files, and lists it.
func (o options) find(backend compute.Backend) error {
	dir := o.dir(o.positions[0], 0)
	model, err := detection.Open(backend, dir)
	if err != nil {
		return err
	}
	defer model.Finalize()
	for _, file := range o.predict {
		picture, err := decode(file)
		if err != nil {
			return err
		}
		found, err := model.Detect(picture.RGBA())
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		program.Printf("%s\n", file)
		for _, d := range found[0] {
			if float64(d.Score) >= o.score {
				program.Printf("  %.2f  %-12s  box %.1f %.1f %.1f %.1f\n", d.Score, model.Categories[d.Class].Name,
					d.Box[0], d.Box[1], d.Box[2], d.Box[3])
			}
		}
		shown := scenes.Show(picture.RGBA(), detection.Shown(found[0], o.score), model.Categories)
		name := filepath.Base(file)
		path := filepath.Join(dir, "found", strings.TrimSuffix(name, filepath.Ext(name))+".png")
		if err := report.Picture(path, func(w io.Writer) error { return png.Encode(w, shown) }); err != nil {
			return err
		}
		program.Printf("  %s\n", path)
	}
	return nil
}

func decode(file string) (*data.Image, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	picture, err := data.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return picture, nil
}
