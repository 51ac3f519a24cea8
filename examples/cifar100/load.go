// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/study"
)

// sets are the images that the flags name: one set for trainings at all sizes, which the graph makes of it; where
// pictures have several aspects, or are streamed, one for each aspect and size.
type sets struct {
	o     options
	files [2]*data.Files // of -folder: to train on and to be tested on, once they were found
	read  map[key][2]data.Source
}

type key struct {
	aspect string
	size   [2]int
}

func newSets(o options) *sets { return &sets{o: o, read: map[key][2]data.Source{}} }

// first returns those of the first training.
func (s *sets) first(ctx context.Context) (train, test data.Source, err error) {
	recipe := s.o.recipe
	if a := s.o.study.Aspects; len(a) > 0 {
		recipe.Aspect = a[0]
	}
	if sizes := s.o.study.Sizes; len(sizes) > 0 {
		recipe.Augment.Size = sizes[0]
	}
	return s.with(ctx, recipe)
}

// of returns those of a training.
func (s *sets) of(ctx context.Context, u study.Unit) (train, test data.Source, err error) {
	if train, test, err = s.with(ctx, u.Recipe); err != nil {
		return nil, nil, err
	}
	return study.Sets(train, test)(ctx, u)
}

// with returns those of a recipe.
func (s *sets) with(ctx context.Context, r finetune.Recipe) (train, test data.Source, err error) {
	var k key
	if r.Aspect != "" || s.o.streaming.On {
		k = key{r.Aspect, r.Augment.Size}
	}
	if known, ok := s.read[k]; ok {
		return known[0], known[1], nil
	}
	if train, test, err = s.load(ctx, r); err == nil {
		s.read[k] = [2]data.Source{train, test}
	}
	return train, test, err
}

// shapeSide is the side of the generated shapes, in pixels.
const shapeSide = 32

// load reads the images for a recipe.
func (s *sets) load(ctx context.Context, r finetune.Recipe) (train, test data.Source, err error) {
	o := s.o
	switch {
	case o.folder != "":
		return s.pictures(ctx, r)
	case o.data == "" && r.Aspect != "": // drawn larger, as pictures are
		size := r.Augment.Size
		if size == [2]int{} {
			size = [2]int{shapeSide, shapeSide}
		}
		settings, err := r.Preprocessing(size)
		if err != nil {
			return nil, nil, err
		}
		return data.ShapesOfAspects(o.task, 3000, 1000, 2*shapeSide, 0, settings)
	case o.data == "": // takes a second and no disk
		return data.Shapes(o.task, 3000, 1000, shapeSide, 0)
	}
	train, test, err = data.CIFAR100(o.data)
	if errors.Is(err, fs.ErrNotExist) && o.download {
		if _, err = data.DownloadCIFAR100(ctx, o.data, func(done, total int64) {
			fmt.Fprintf(os.Stderr, "\rCIFAR-100: %d of %d MB", done>>20, total>>20)
		}); err == nil {
			train, test, err = data.CIFAR100(o.data)
		}
	}
	return train, test, err
}

// heldOut is the share of -folder's pictures that is tested on, where they come without a split of their own.
const heldOut = 0.2

// pictures finds the pictures of -folder, and reads them if they are not streamed. The middle of each picture is
// kept, unless the recipe's aspect says otherwise, at the size that the model sees; where several sizes are asked
// for, and no aspects, at the largest of each side, from which the graph makes the others. What is streamed comes in
// each size by itself.
func (s *sets) pictures(ctx context.Context, r finetune.Recipe) (train, test data.Source, err error) {
	o, size := s.o, r.Augment.Size
	if r.Aspect == "" && !o.streaming.On {
		for _, s := range o.study.Sizes {
			size = [2]int{max(size[0], s[0]), max(size[1], s[1])}
		}
	}
	if size == [2]int{} {
		return nil, nil, fmt.Errorf("-folder: recipe %s names no size: add -sizes, as -sizes 224x224", o.recipe.Name)
	}
	if err := s.find(); err != nil {
		return nil, nil, err
	}
	settings, err := r.Preprocessing(size)
	if err != nil {
		return nil, nil, err
	}
	var read [2]data.Source
	for i, files := range s.files {
		if o.streaming.On {
			read[i], err = files.Stream(settings, o.streaming.Streaming)
		} else {
			read[i], err = files.Load(ctx, settings, program.Line)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return read[0], read[1], nil
}

// find finds the pictures of -folder, once.
func (s *sets) find() error {
	if s.files[0] != nil {
		return nil
	}
	train, test, what, err := program.Pictures(s.o.folder, heldOut)
	if err != nil {
		return err
	}
	if len(train.Classes) == 1 { // the folder train without a val, for one
		return fmt.Errorf("-folder: %s has one class alone, %s: want a folder for each, or train and val with those",
			s.o.folder, train.Classes[0])
	}
	s.files = [2]*data.Files{train, test}
	program.Line(fmt.Sprintf("%s: %s, %d and %d pictures of %d classes, %v", s.o.folder, what, train.Len(), test.Len(),
		len(train.Classes), &s.o.streaming))
	return nil
}
