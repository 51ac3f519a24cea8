// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command cifar100 trains vision transformers with the position encodings of your choice, from scratch or from a
// pretrained model, and compares them: on CIFAR-100, or without -data on generated shapes that need no download.
//
//	go run ./examples/cifar100                                           where is the shape? five encodings, minutes
//	go run ./examples/cifar100 -data DIR -position wepe,learned -seeds 3 CIFAR-100
//	go run ./examples/cifar100 -from MODEL -data DIR                     fine-tune: learned, wepe and hybrid positions
//	go run ./examples/cifar100 -from MODEL -folder DIR                   on your own pictures, a folder for each class
//	go run ./examples/cifar100 -stream -folder DIR                       more of them than fit into memory
//	go run ./examples/cifar100 -data DIR -study ablation -seeds 3        what each part of WePE is worth
//	go run ./examples/cifar100 -study flexible -task shape -seeds 3      pictures that keep their aspect, or lose it
//	go run ./examples/cifar100 -eval -position wepe                      measure a trained model again
//	go run ./examples/cifar100 -predict a.png,b.jpg -position wepe       name what is in pictures
//	go run ./examples/cifar100 -show-augmentation a.png                  see what a recipe does to pictures
//	go run ./examples/cifar100 -export OUT -position wepe                take a model home, in Hugging Face's form
//
// The same command goes on where an interrupted one stopped.
package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/backend"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/study"
)

func main() { program.Main("cifar100", parse, options.saves, run) }

// saves says whether there is something to save when a signal comes.
func (o options) saves() bool {
	return !o.eval && len(o.predict) == 0 && o.export == "" && o.show == ""
}

// run loads images, trains what is not trained yet, and compares.
func run(ctx context.Context, o options) (err error) {
	s := &o.study
	if s.Backend, err = backend.Open(backend.Devices(s.Devices)); err != nil {
		return err
	}
	defer s.Backend.Finalize()
	if len(o.predict) > 0 || o.export != "" {
		return o.use()
	}
	images := newSets(o)
	train, test, err := images.first(ctx)
	if err != nil {
		return err
	}
	if o.show != "" {
		return report.Picture(o.show, func(w io.Writer) error {
			return o.recipe.ShowAugmentation(w, s.Backend, train, int64(s.FirstSeed))
		})
	}
	s.Tasks[0].Images = images.of
	if o.named.Sides != nil {
		if s.Sizes, err = study.SizesOf(o.named.Sides, o.recipe, train.Describe()); err != nil {
			return err
		}
	}
	s.Elsewhere = o.named.Elsewhere
	if o.eval {
		return evaluate(ctx, s)
	}
	if !o.table {
		if s.From, err = program.Fetch(ctx, s.From); err != nil {
			return err
		}
		if !s.Follows() {
			program.Line(fmt.Sprintf("recipe %s: %d training and %d test images of %s, results in %s", o.recipe.Name,
				train.Len(), test.Len(), train.Describe().Name, s.Dir))
		}
		if err := s.Run(ctx); err != nil || s.Follows() {
			return err
		}
	}
	table, err := s.Table()
	if err != nil {
		return err
	}
	program.Printf("\n%s, recipe %s, chance is %.1f %%\n\n%s\n", train.Describe().Name, o.recipe.Name,
		100/float64(len(train.Describe().Classes)), table.Text())
	pictures, err := s.Curves()
	for _, picture := range pictures {
		program.Printf("curves:    %s\n", picture)
	}
	program.Printf("encodings: %s\n", filepath.Join(s.Dir, "*", "field.png"))
	program.Printf("pages:     %s\n", filepath.Join(s.Dir, "*", finetune.PageFile))
	return err
}

// evaluate measures the trained models on the test images.
func evaluate(ctx context.Context, s *study.Study) error {
	units, err := s.Units(nil)
	if err != nil {
		return err
	}
	for _, u := range units {
		_, test, err := u.Task.Images(ctx, u)
		if err != nil {
			return err
		}
		model, err := finetune.Open(s.Backend, u.Dir)
		if err != nil {
			return err
		}
		m, err := model.Evaluate(test)
		model.Finalize()
		if err != nil {
			return err
		}
		program.Printf("%-17s  loss %.4f  top-1 %.2f %%  top-5 %.2f %%  of %d images\n", u, float64(m.Loss),
			100*float64(m.Top1), 100*float64(m.Top5), m.Images)
	}
	return nil
}

// use names what the first trained model sees in image files, or writes it for other software.
func (o options) use() error {
	units, err := o.study.Units(nil)
	if err != nil {
		return err
	}
	model, err := finetune.Open(o.study.Backend, units[0].Dir)
	if err != nil {
		return err
	}
	if o.export != "" {
		lines, err := model.Export(o.export, checkpoints.ExportOptions{Format: o.format})
		for _, line := range lines {
			program.Line(line)
		}
		return err
	}
	answers, err := model.PredictFiles(o.predict, o.top)
	for i, classes := range answers {
		if classes == nil { // see the error
			continue
		}
		program.Printf("%s\n", o.predict[i])
		for _, c := range classes {
			program.Printf("  %5.1f %%  %s\n", 100*c.Probability, c.Name)
		}
	}
	return err
}
