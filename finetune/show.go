// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"context"
	"image"
	"image/color"
	"image/png"
	"io"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/image/draw"

	"github.com/wepe-go/wepe/data"
)

const (
	shownImages = 8  // of a set
	shownTimes  = 5  // each
	shownSide   = 96 // pixels at least; smaller pictures are enlarged by a whole number
	shownGap    = 4
)

// ShowAugmentation draws what a recipe does to the first eight images of a set, as PNG: a row for each of five epochs
// below the images as they are, each column one image, in a batch of these eight, which is what they are mixed with.
func (r Recipe) ShowAugmentation(w io.Writer, backend compute.Backend, images data.Source, seed int64) error {
	if err := r.oneSize("a picture of the augmentation"); err != nil {
		return err
	}
	if err := r.Augment.Validate(); err != nil {
		return err
	}
	rows := make([]int, min(shownImages, images.Len()))
	for k := range rows {
		rows[k] = k
	}
	set, err := images.Load(context.Background(), rows)
	if err != nil {
		return err
	}
	n := len(rows)
	height, width := r.Augment.OutputSize(set.Height, set.Width)
	times := max(1, (shownSide+min(height, width)-1)/min(height, width))
	cell := image.Pt(width*times+shownGap, height*times+shownGap)
	page := image.NewRGBA(image.Rect(0, 0, n*cell.X+shownGap, (1+shownTimes)*cell.Y+shownGap))
	draw.Draw(page, page.Bounds(), image.White, image.Point{}, draw.Src)
	place := func(row, k int, picture image.Image) {
		corner := image.Pt(shownGap+k*cell.X, shownGap+row*cell.Y)
		draw.NearestNeighbor.Scale(page, image.Rectangle{corner, corner.Add(image.Pt(width*times, height*times))}, picture,
			picture.Bounds(), draw.Src, nil)
	}
	for k := range rows {
		place(0, k, set.RGBA(k))
	}
	host, augment := images.Divide(r.Augment)
	program, err := NewExec(backend, func(inputs []*Node) []*Node {
		return []*Node{augment.Images(inputs[0], inputs[1:])}
	})
	if err != nil {
		return err
	}
	defer program.Finalize()
	for epoch := range shownTimes {
		pictures := set
		if host != (data.Augment{}) {
			if pictures, err = data.LoadBatch(images, host, seed, epoch, rows); err != nil {
				return err
			}
		}
		inputs := []any{pictures.Tensor()}
		_, augment := images.Divide(r.augmentation(epoch))
		plan := augment.Plan(set, seed, epoch, 0, rows)
		for _, t := range plan.Tensors() {
			inputs = append(inputs, t)
		}
		shown, err := program.Call(inputs...)
		for _, t := range inputs {
			_ = t.(*tensors.Tensor).FinalizeAll()
		}
		if err != nil {
			return err
		}
		flat, err := tensors.CopyFlatData[float32](shown[0])
		_ = shown[0].FinalizeAll()
		if err != nil {
			return err
		}
		for k, size := 0, height*width*set.Channels; k < n; k++ {
			place(1+epoch, k, r.denormalised(flat[k*size:(k+1)*size], height, width, set.Channels))
		}
	}
	return png.Encode(w, page)
}

// denormalised is a picture of what a model sees, colours that no byte has cut off.
func (r Recipe) denormalised(values []float32, height, width, channels int) image.Image {
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
