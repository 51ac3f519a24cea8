// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"path/filepath"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/program"
)

// drawn are the objects of pictures in a directory of pictures, white on black, of the same names but for the ending.
func drawn(ctx context.Context, dir string, files *data.Files, settings preprocess.Settings) (func(int) []bool, error) {
	paths := make([]string, files.Len())
	for i := range paths {
		paths[i] = strings.TrimSuffix(files.Where(i), filepath.Ext(files.Where(i))) + ".png"
	}
	objects, err := data.NewFiles("masks", dir, paths, files.Labels, files.Classes)
	if err != nil {
		return nil, err
	}
	masks, err := objects.Load(ctx, settings, program.Line)
	if err != nil {
		return nil, err
	}
	if masks.Len() != files.Len() {
		return nil, errors.New("-masks: a picture is damaged, so that masks would be of others: mend it")
	}
	return bright(masks), nil
}

// annotated are the objects of pictures in COCO's instances file, all of a picture together, resized and cropped as the
// pictures are; of a picture without objects there is no mask.
func annotated(path string, files *data.Files, settings preprocess.Settings) (func(int) []bool, error) {
	truth, err := coco.Read(path)
	if err != nil {
		return nil, err
	}
	objects, err := truth.Objects()
	if err != nil {
		return nil, err
	}
	images := map[string]coco.Image{}
	for _, i := range truth.Images {
		images[filepath.Base(i.FileName)] = i
	}
	settings.Resample = preprocess.Nearest
	masks := make([][]bool, files.Len())
	for k := range files.Len() {
		picture := files.Where(k)
		i, known := images[filepath.Base(picture)]
		if !known {
			return nil, fmt.Errorf("-masks: %s says nothing of the picture %s", path, picture)
		}
		if len(objects[i.ID]) == 0 {
			continue
		}
		union, err := truth.Union(i, objects[i.ID], i.Height, i.Width)
		if err != nil {
			return nil, err
		}
		white := image.NewGray(image.Rect(0, 0, i.Width, i.Height))
		for p, object := range union {
			if object {
				white.Pix[p] = 255
			}
		}
		sized, err := data.FromImage(white).Preprocess(settings)
		if err != nil {
			return nil, err
		}
		for p := 0; p < len(sized.Pixels); p += 3 {
			masks[k] = append(masks[k], sized.Pixels[p] > 127)
		}
	}
	return func(i int) []bool { return masks[i] }, nil
}

// bright are the pixels of an image whose first channel is above half.
func bright(set *data.Memory) func(int) []bool {
	return func(i int) []bool {
		var mask []bool
		for k := 0; k < len(set.Row(i)); k += set.Channels {
			mask = append(mask, set.Row(i)[k] > 127)
		}
		return mask
	}
}
