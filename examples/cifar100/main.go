// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command cifar100 trains vision transformers with the position encodings of your choice, from scratch or from a
// pretrained model, and compares them: on CIFAR-100, or without -data on generated shapes that need no download.
//
//	go run ./examples/cifar100                                           where is the shape? four encodings, minutes
//	go run ./examples/cifar100 -data DIR -position wepe,learned -seeds 3 CIFAR-100
//	go run ./examples/cifar100 -from MODEL -data DIR                     fine-tune: learned, wepe and hybrid positions
//	go run ./examples/cifar100 -from MODEL -folder DIR                   on your own pictures, a folder for each class
//	go run ./examples/cifar100 -data DIR -study ablation -seeds 3        what each part of WePE is worth
//	go run ./examples/cifar100 -eval -position wepe                      measure a trained model again
//	go run ./examples/cifar100 -predict a.png,b.jpg -position wepe       name what is in pictures
//	go run ./examples/cifar100 -export OUT -position wepe                take a model home, in Hugging Face's form
//
// The same command goes on where an interrupted one stopped.
package main

import (
	"context"
	"errors"

	"github.com/wepe-go/wepe/examples/internal/backends"
	"github.com/wepe-go/wepe/examples/internal/pretrained"
	"github.com/wepe-go/wepe/examples/internal/program"
	"github.com/wepe-go/wepe/finetune"
)

func main() { program.Main("cifar100", parse, options.saves, run) }

// saves says whether there is something to save when a signal comes.
func (o options) saves() bool { return !o.eval && len(o.predict) == 0 && o.export == "" }

func run(ctx context.Context, o options) error {
	original, err := finetune.Named(o.recipe)
	if err != nil {
		return err
	}
	recipe, err := original.Set(o.settings)
	if err != nil {
		return err
	}
	if recipe.Model.Position != original.Model.Position {
		return errors.New("-set model.position: -position names the encodings")
	}
	switch {
	case len(o.predict) > 0:
		return o.withModel(o.predictWith)
	case o.export != "":
		return o.withModel(o.exportFrom)
	}
	if !o.eval && !o.table {
		if o.from, err = pretrained.Fetch(ctx, o.from); err != nil {
			return err
		}
	}
	train, test, err := load(ctx, o, recipe)
	if err != nil {
		return err
	}
	backend, err := backends.Open()
	if err != nil {
		return err
	}
	defer backend.Finalize()
	if o.sizes, err = o.aspects(recipe, train); err != nil {
		return err
	}
	s := study{options: o, recipe: recipe, train: train, test: test, backend: backend}
	if o.eval {
		return s.evaluate()
	}
	return s.run(ctx)
}
