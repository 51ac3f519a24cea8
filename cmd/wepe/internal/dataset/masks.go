// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/numeric"
)

// Masked reads the images of --data for a model, those of its test split or, without one, its validation split, and
// masks of their objects: path is a directory of images with the same names, white on black, or COCO's instances file.
// Directories without classes are accepted.
func (d *Dataset) Masked(ctx context.Context, path string, m *finetune.Model, limit int) (
	*data.InMemory, func(int) []bool, error) {
	if d.files[0] == nil {
		return nil, nil, cli.Usagef("--masks: %s is not a directory of images", d.Spec)
	}
	files := cmp.Or(d.files[2], d.files[1], d.files[0])
	files = files.Subset(numeric.Spread(limit, files.Len())) // the list may be sorted by class
	settings, err := m.Preprocessing()
	if err != nil {
		return nil, nil, err
	}
	set, err := files.Load(ctx, settings, cli.Logger())
	if err != nil {
		return nil, nil, err
	}
	name := func(i int) string { return filepath.ToSlash(files.Where(i)) }
	var mask func(int) []bool
	if filepath.Ext(path) == ".json" {
		mask, err = annotated(path, files.Len(), name, settings)
	} else {
		mask, err = drawn(ctx, path, files, name, settings)
	}
	if err == nil && set.Len() != files.Len() {
		err = fmt.Errorf("--masks: an image of --data is damaged, so images and masks would not match: delete it")
	}
	return set, mask, err
}

// drawn returns masks from a directory of images, white on black, with the same names except for the extension.
func drawn(ctx context.Context, dir string, files *data.Files, name func(int) string, settings preprocess.Settings) (
	func(int) []bool, error) {
	own, err := os.Stat(files.Dir)
	if info, missing := os.Stat(dir); err == nil && missing == nil && os.SameFile(own, info) {
		return nil, cli.Usagef("--masks %s is the directory of the images: name that of their masks", dir)
	}
	paths := make([]string, files.Len())
	for i := range paths {
		paths[i] = strings.TrimSuffix(name(i), path.Ext(name(i))) + ".png"
	}
	settings.Fill = [3]uint8{} // the border of an image is no object
	objects, err := data.NewFiles("masks", dir, paths, files.Labels, files.Classes)
	if err != nil {
		return nil, err
	}
	masks, err := objects.Load(ctx, settings, cli.Logger())
	if err != nil {
		return nil, fmt.Errorf("--masks %s: %w", dir, err)
	}
	if masks.Len() != files.Len() {
		return nil, fmt.Errorf("--masks %s: an image is damaged, so images and masks would not match: fix it", dir)
	}
	return Bright(masks), nil
}

// annotated returns masks of n images from COCO's instances file, all objects of an image together, resized and cropped
// like the images; an image without objects has no mask.
func annotated(annotations string, n int, where func(int) string, settings preprocess.Settings) (
	func(int) []bool, error) {
	truth, err := coco.Read(annotations)
	if err != nil {
		return nil, err
	}
	objects, err := truth.Objects()
	if err != nil {
		return nil, err
	}
	name, images := path.Base, map[string]coco.Image{} // annotations of COCO have no folders
	listed := func(i int) string { return truth.Images[i].FileName }
	if repeated(n, where) || repeated(len(truth.Images), listed) {
		name = path.Clean
	}
	for _, i := range truth.Images {
		images[name(i.FileName)] = i
	}
	settings.Resample, settings.Float, settings.Fill = preprocess.Nearest, false, [3]uint8{} // as in drawn
	masks := make([][]bool, n)
	for k := range n {
		i, known := images[name(where(k))]
		if !known {
			return nil, fmt.Errorf("--masks: %s does not list the image %s", annotations, name(where(k)))
		}
		if len(objects[i.ID]) == 0 {
			continue
		}
		union, err := truth.Union(i, objects[i.ID])
		if err != nil {
			return nil, err
		}
		white := image.NewGray(image.Rect(0, 0, i.Width, i.Height))
		for p, object := range union.Decode() {
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

// repeated reports whether two of n paths have one name.
func repeated(n int, of func(int) string) bool {
	names := map[string]bool{}
	for i := range n {
		names[path.Base(of(i))] = true
	}
	return len(names) < n
}

// Bright returns masks of the pixels whose first channel is above half.
func Bright(set *data.InMemory) func(int) []bool {
	return func(i int) []bool {
		var mask []bool
		for k := 0; k < len(set.Row(i)); k += set.Channels {
			mask = append(mask, set.Row(i)[k] > 127)
		}
		return mask
	}
}
