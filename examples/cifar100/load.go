// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/internal/program"
)

// load returns the images that the flags name.
func load(ctx context.Context, o options) (train, test *data.Set, err error) {
	switch {
	case o.folder != "":
		return pictures(ctx, o)
	case o.data == "": // takes a second and no disk
		return data.Shapes(o.task, 3000, 1000, 32, 0)
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

// pictures reads class folders. The middle of each picture is kept, at the size that the model sees; where several
// sizes are asked for at the largest of each side, from which the graph makes the others.
func pictures(ctx context.Context, o options) (train, test *data.Set, err error) {
	size := o.recipe.Augment.Size
	for _, s := range o.study.Sizes {
		size = [2]int{max(size[0], s[0]), max(size[1], s[1])}
	}
	if size == [2]int{} {
		return nil, nil, fmt.Errorf("-folder: recipe %s names no size: add -sizes, as -sizes 224x224", o.recipe.Name)
	}
	trainFiles, testFiles, err := data.Folder(o.folder, nil, heldOut, 0)
	if err != nil {
		return nil, nil, err
	}
	if len(trainFiles.Classes) == 1 { // the folder train without a val, for one
		return nil, nil, fmt.Errorf("-folder: %s has one folder alone, %s: want one for each class, or train and val with "+
			"those", o.folder, trainFiles.Classes[0])
	}
	settings := preprocess.Settings{Fit: preprocess.FitCover, Size: size, Resample: preprocess.Bicubic, Crop: size}
	if train, err = trainFiles.Load(ctx, settings, program.Line); err != nil {
		return nil, nil, err
	}
	test, err = testFiles.Load(ctx, settings, program.Line)
	return train, test, err
}
