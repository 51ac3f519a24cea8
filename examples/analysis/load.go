// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/study"
)

// shapes are those of examples/cifar100 without -data: 3,000 to train on, others to look at.
func shapes() (train, test *data.Memory, err error) {
	return data.Shapes(data.TaskWhere, 3000, 1000, 32, 0)
}

// find returns the models with their paths on disk; without -model it trains two.
func (o options) find(ctx context.Context, backend compute.Backend) (found []analysis.Model, err error) {
	models := o.models
	if len(models) == 0 {
		recipe, err := finetune.Named("shapes")
		if err != nil {
			return nil, err
		}
		train, test, err := shapes()
		if err != nil {
			return nil, err
		}
		s := study.Study{Dir: filepath.Join("runs", "shapes"), Arms: study.Each("learned", "wepe"), Seeds: 1,
			Backend:  backend,
			Tasks:    []study.Task{{Recipe: recipe, Images: study.Sets(train, test)}},
			Progress: program.Progress, Logger: program.Logger()}
		if err := s.Run(ctx); err != nil {
			return nil, err
		}
		units, err := s.Units(nil)
		if err != nil {
			return nil, err
		}
		for _, u := range units {
			models = append(models, analysis.Model{Name: u.Label, Path: u.Dir})
		}
	}
	for _, m := range models {
		if m.Path, err = program.Fetch(ctx, m.Path); err != nil {
			return nil, err
		}
		m.Import = o.open
		found = append(found, m)
	}
	if o.start {
		for _, m := range found {
			found = append(found, analysis.Model{Name: m.Name + " at start", Path: m.Path, Start: true})
		}
	}
	return found, nil
}

// load returns the images to look with, and which of their pixels are the object, where that is known.
func (o options) load(ctx context.Context, backend compute.Backend) (set *data.Memory, mask func(int) []bool, err error) {
	if o.images == "" {
		if _, set, err = shapes(); err != nil {
			return nil, nil, err
		}
		set = data.First(set, o.count)
		return set, bright(set), nil // white on black
	}
	_, set, err = data.CIFAR100(o.images)
	if err == nil {
		return data.First(set, o.count), nil, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	files, err := pictures(o.images)
	if err != nil {
		return nil, nil, err
	}
	files = files.Slice(0, min(o.count, files.Len()))
	settings, err := o.settings(backend)
	if err != nil {
		return nil, nil, err
	}
	if set, err = files.Load(ctx, settings, program.Line); err != nil || o.masks == "" {
		return set, nil, err
	}
	if set.Len() != files.Len() {
		return nil, nil, errors.New("-masks: a picture of -images is damaged, so that masks would be of others: take it out")
	}
	if filepath.Ext(o.masks) == ".json" {
		mask, err = annotated(o.masks, files, settings)
	} else {
		mask, err = drawn(ctx, o.masks, files, settings)
	}
	return set, mask, err
}

// settings bring pictures to the size of the first model.
func (o options) settings(backend compute.Backend) (preprocess.Settings, error) {
	m, err := finetune.Open(backend, o.models[0].Path, finetune.Files(o.open))
	if err != nil {
		return preprocess.Settings{}, err
	}
	defer m.Finalize()
	if m.Preprocess != (preprocess.Settings{}) {
		return m.Preprocess, nil
	}
	size := [2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols}
	return preprocess.Settings{Fit: preprocess.FitCover, Size: size, Resample: preprocess.Bicubic, Crop: size}, nil
}

// pictures lists those of class folders, of the part held out where there is one, or those that lie in a directory.
func pictures(dir string) (*data.Files, error) {
	train, held, err := data.Folder(dir, nil, 0, 0)
	if held != nil {
		return held, nil
	}
	if err == nil {
		return train, nil
	}
	if files, err := data.ImageFiles(dir); err == nil {
		return files, nil
	}
	return nil, fmt.Errorf("-images: no pictures in %s: %w", dir, err)
}
