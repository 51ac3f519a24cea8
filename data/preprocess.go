// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"fmt"
	"image"
	"image/color"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// FromImage converts a decoded image to 8 bits per channel, dropping transparency as Decode does.
func FromImage(img image.Image) *Image {
	bounds := img.Bounds()
	p := &Image{Height: bounds.Dy(), Width: bounds.Dx(), Pixels: make([]uint8, 0, 3*bounds.Dy()*bounds.Dx())}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			p.Pixels = append(p.Pixels, c.R, c.G, c.B)
		}
	}
	return p
}

// Preprocess returns the image resized and cropped, or cut into patches, as settings specify.
func (p *Image) Preprocess(s preprocess.Settings) (*Image, error) {
	height, width := s.Resized(p.Height, p.Width)
	if int64(height)*int64(width) > maxPixels {
		return nil, fmt.Errorf("%d×%d pixels become %d×%d, want at most %d", p.Width, p.Height, width, height, maxPixels)
	}
	start, size := s.Window(height, width)
	w := window{top: start[0], left: start[1], height: size[0], width: size[1]}
	cuts := s.Fit != preprocess.FitPatches && (s.Crop != [2]int{} || s.Trim != [2]int{})
	switch {
	case s.Float:
		p = p.resizeFloat(height, width, s.Kernel())
	case cuts && s.Kernel() != preprocess.Nearest && w.within(height, width): // only the visible part
		return p.resample(tapsOf(s.Kernel(), p.Height, part{0, float64(p.Height)}, height)[w.top:w.top+w.height],
			tapsOf(s.Kernel(), p.Width, part{0, float64(p.Width)}, width)[w.left:w.left+w.width],
			p.columnsFirst(height, width)), nil
	default:
		p = p.Resize(height, width, s.Kernel())
	}
	switch {
	case s.Fit == preprocess.FitPatches:
		return p.strip(s)
	case !cuts:
		return p, nil
	}
	out := &Image{Height: w.height, Width: w.width, Pixels: cut(p, p.Pixels, w, s.Fill)}
	if p.Float != nil {
		out.Float = cut(p, p.Float, w, s.Fill)
	}
	return out, nil
}
