// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"context"
	"image"
	"image/color"
	"io"
	"maps"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/xslices"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/figure"
)

const (
	shownImages = 8
	shownEpochs = 5
)

// ShowAugmentation writes an image grid as PNG: the first eight images of a dataset, one per column, and below them a
// row with their augmentation in each of five epochs. Mixing is among these eight.
func (r Recipe) ShowAugmentation(w io.Writer, backend compute.Backend, images data.Dataset, seed int64) error {
	if err := cmp.Or(r.oneSize("an image of the augmentation"), r.Augment.Validate()); err != nil {
		return err
	}
	rows := xslices.Iota(0, min(shownImages, images.Len()))
	set, err := data.Load(context.Background(), images, rows)
	if err != nil {
		return err
	}
	height, width := r.Augment.OutputSize(set.Height, set.Width)
	grid := make([][]image.Image, 1+shownEpochs)
	for k := range rows {
		grid[0] = append(grid[0], set.RGBA(k))
	}
	_, augment := r.Augment.SplitHostGraph(images)
	program, err := model.NewExec(backend, model.NewStore(), func(_ *model.Scope, inputs []*Node) *Node {
		return augment.Images(inputs[0], inputs[1:])
	})
	if err != nil {
		return err
	}
	defer program.Finalize()
	for epoch := range shownEpochs {
		values, err := r.augmented(program, images, set, seed, epoch, rows)
		if err != nil {
			return err
		}
		for pixels := range slices.Chunk(values, height*width*set.Channels) {
			grid[1+epoch] = append(grid[1+epoch], r.denormalized(pixels, height, width, set.Channels))
		}
	}
	return figure.ImageGrid(w, grid, 1)
}

// augmented returns the model's input for rows of a source in an epoch; set has these rows.
func (r Recipe) augmented(program *model.Exec, images data.Dataset, set *data.InMemory, seed int64, epoch int,
	rows []int) ([]float32, error) {
	host, augment := r.augmentation(epoch).SplitHostGraph(images)
	shown := set
	if host != (data.Augment{}) {
		for batch, err := range data.Read(images, host, seed, len(rows), maps.All(map[int][]int{epoch: rows})) {
			if err != nil {
				return nil, err
			}
			shown = &batch.InMemory
		}
	}
	outputs, err := pixels{set: set}.call(program, augment.Plan(set, seed, epoch, 0, rows), shown, nil)
	if err != nil {
		return nil, err
	}
	flat, err := taken(outputs, len(rows), tensors.CopyFlatData[float32])
	return flat[0], err
}

// denormalized converts a model's input to an image, clipping colours.
func (r Recipe) denormalized(values []float32, height, width, channels int) image.Image {
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range height * width {
		var rgb [3]uint8
		for c := range rgb {
			k := min(c, channels-1)
			v := float64(values[i*channels+k])*cmp.Or(r.Augment.Std[k], 1) + r.Augment.Mean[k]
			rgb[c] = uint8(min(max(255*v+0.5, 0), 255))
		}
		out.SetRGBA(i%width, i/width, color.RGBA{rgb[0], rgb[1], rgb[2], 255})
	}
	return out
}
