// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
	"image"
	"image/draw"
	_ "image/gif" // registers the decoder, like the next ones
	_ "image/jpeg"
	_ "image/png"
	"math"
	"os"
	"slices"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/webp"

	"github.com/wepe-go/wepe/finetune/data"
)

// maxPixels bounds the size of an image that is decoded: Pillow's warning limit, 2^28/3.
const maxPixels = 89_478_485

// Class is one answer of Predict.
type Class struct {
	Name        string
	Probability float64
}

// Predict names what is in an image file (jpeg, png, gif, webp, bmp), the most likely first. The picture is resized to
// the model's size, whatever its shape.
func (m *Model) Predict(file string, top int) ([]Class, error) {
	set, err := m.read(file)
	if err != nil {
		return nil, err
	}
	logits, err := m.logits(m.upload(set), []int{0}, 1)
	if err != nil {
		return nil, err
	}
	peak, sum := slices.Max(logits[0]), 0.0
	classes := make([]Class, len(logits[0]))
	for i, v := range logits[0] {
		p := math.Exp(float64(v - peak))
		classes[i], sum = Class{Name: m.Classes[i], Probability: p}, sum+p
	}
	for i := range classes {
		classes[i].Probability /= sum
	}
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return classes[:min(top, len(classes))], nil
}

// read decodes one image as a set of its own.
func (m *Model) read(file string) (set *data.Set, err error) {
	defer func() {
		if p := recover(); p != nil { // a decoder met a file it was not made for
			err = fmt.Errorf("finetune: %s: damaged image: %v", file, p)
		}
	}()
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, _, err := image.DecodeConfig(f)
	if err != nil {
		return nil, fmt.Errorf("finetune: %s: %w", file, err)
	}
	if info.Width < 1 || info.Height < 1 || int64(info.Width)*int64(info.Height) > maxPixels {
		return nil, fmt.Errorf("finetune: %s: %d×%d pixels, want 1 to %d in all", file, info.Width, info.Height, maxPixels)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	img, _, err := image.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("finetune: %s: %w", file, err)
	}
	c := m.Recipe.Model
	if c.Channels != 3 {
		return nil, fmt.Errorf("finetune: the model takes %d channels, image files give 3", c.Channels)
	}
	bounds := img.Bounds()
	rgba := image.NewRGBA(image.Rect(0, 0, bounds.Dx(), bounds.Dy()))
	draw.Draw(rgba, rgba.Bounds(), img, bounds.Min, draw.Src)
	set = &data.Set{Name: file, Labels: []int32{0}, Height: bounds.Dy(), Width: bounds.Dx(), Channels: 3,
		Classes: m.Classes, Pixels: make([]uint8, 0, 3*bounds.Dx()*bounds.Dy())}
	for i := 0; i < len(rgba.Pix); i += 4 {
		set.Pixels = append(set.Pixels, rgba.Pix[i], rgba.Pix[i+1], rgba.Pix[i+2])
	}
	return set, nil
}
