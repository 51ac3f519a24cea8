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

// Preprocess returns the image resized and cropped, or cut into patches, as settings specify. Only the visible part of
// the resized image is computed.
func (p *Image) Preprocess(s preprocess.Settings) (*Image, error) {
	height, width := s.Resized(p.Height, p.Width)
	w := window{height: height, width: width}
	if s.Resize != preprocess.ResizePatches && (s.Crop != [2]int{} || s.Trim != [2]int{}) {
		start, size := s.Window(height, width)
		w = window{top: start[0], left: start[1], height: size[0], width: size[1]}
	}
	if int64(w.height)*int64(w.width) > maxPixels {
		return nil, fmt.Errorf("%d×%d pixels become %d×%d, want at most %d", p.Width, p.Height, w.width, w.height, maxPixels)
	}
	visible := w.visible(height, width)
	if visible.height < 1 || visible.width < 1 {
		return p.framed(window{top: p.Height, height: w.height, width: w.width}, s), nil
	}
	if s.Float {
		p = p.resizeFloat(height, width, visible, s.Kernel())
	} else {
		p = p.resized(height, width, visible, s.Kernel())
	}
	if s.Resize == preprocess.ResizePatches {
		return p.strip(s)
	}
	if visible == w {
		return p, nil
	}
	return p.framed(window{top: w.top - visible.top, left: w.left - visible.left, height: w.height, width: w.width}, s),
		nil
}

// framed returns a window of the image, with the colour of the settings beyond the border.
func (p *Image) framed(w window, s preprocess.Settings) *Image {
	out := &Image{Height: w.height, Width: w.width, Pixels: cut(p, p.Pixels, w, s.Fill)}
	if s.Float {
		out.Float = cut(p, p.Float, w, s.Fill)
	}
	return out
}

// visible returns the part of a window that is in an image of the given sides.
func (w window) visible(height, width int) window {
	top, left := max(0, w.top), max(0, w.left)
	return window{top: top, left: left, height: min(height, w.top+w.height) - top, width: min(width,
		w.left+w.width) - left}
}
