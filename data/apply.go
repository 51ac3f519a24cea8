// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"cmp"
	"math"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/random"
)

// onHost reports whether images are cropped, resized and changed on the host: if a has any operation that only the host
// has.
func (a Augment) onHost() bool {
	return a.Resample != "" || a.Policy != "" || a.Rotate != 0 || a.Jitter != [4]float64{} || a.GreyProb != 0 ||
		a.EraseProb != 0 || a.EraseScale != [2]float64{} || a.EraseNoise
}

// afterHost returns the remaining part of a for images from Image.
func (a Augment) afterHost() Augment {
	return Augment{Size: a.Size, Cutout: a.Cutout, MixupAlpha: a.MixupAlpha, CutmixAlpha: a.CutmixAlpha,
		MixProb: a.MixProb, SwitchProb: a.SwitchProb, Mean: a.Mean, Std: a.Std}
}

// Apply returns the image after the steps of Augment up to erasing: a function of (seed, epoch, index) and the image,
// safe for concurrent use. Index is the row of the image, or its index from Order.
func (a Augment) Apply(p *Image, seed int64, epoch, index int) *Image {
	w := a.window(random.New(streamSample, seed, epoch, index), p.Height, p.Width)
	height, width := a.OutputSize(p.Height, p.Width)
	shown := p.windowed(w).Resize(height, width, cmp.Or(a.Resample, preprocess.Bilinear))
	shown.flip(w)
	return a.change(shown, seed, epoch, index)
}

// change applies the steps that do not depend on the crop window to a copy of the image.
func (a Augment) change(p *Image, seed int64, epoch, index int) *Image {
	r := random.New(streamChange, seed, epoch, index)
	if a.Rotate > 0 {
		p = operations["Rotate"](p, (2*r.Float64()-1)*a.Rotate, surroundings{kernel: preprocess.Nearest})
	}
	if a.Policy != "" {
		chosen, err := parsePolicy(a.Policy, a.fill())
		if err != nil {
			panic(err) // Validate refuses such names
		}
		p = chosen.apply(p, r)
	}
	if a.Jitter != [4]float64{} {
		p = p.jitter(a.Jitter, r)
	}
	if a.GreyProb > 0 && r.Float64() < a.GreyProb {
		p.grey()
	}
	if a.EraseProb > 0 && r.Float64() < a.EraseProb {
		scale, std := a.EraseScale, a.Std
		if scale == [2]float64{} {
			scale = [2]float64{0.02, 1.0 / 3}
		}
		for c := range std {
			std[c] = cmp.Or(std[c], 1)
		}
		p.erase(scale, a.EraseNoise, a.Mean, std, r)
	}
	return p
}

// fill is the mean colour, or grey if there is no mean.
func (a Augment) fill() [3]uint8 {
	if a.Mean == [3]float64{} {
		return [3]uint8{128, 128, 128}
	}
	var fill [3]uint8
	for c, v := range a.Mean {
		fill[c] = clip8(int(math.Round(255 * v)))
	}
	return fill
}

// windowed copies a window, black beyond the border.
func (p *Image) windowed(w window) *Image {
	return &Image{Height: w.height, Width: w.width, Pixels: cut(p, p.Pixels, w, [3]uint8{})}
}

// cut copies a window of the pixels of an image; pixels beyond the border have the colour fill.
func cut[T uint8 | float32](p *Image, pixels []T, w window, fill [3]uint8) []T {
	out := make([]T, 3*w.height*w.width)
	for i := 0; i < len(out) && fill != [3]uint8{}; i++ {
		out[i] = T(fill[i%3])
	}
	left, right := max(0, w.left), min(p.Width, w.left+w.width)
	for y := max(0, w.top); y < min(p.Height, w.top+w.height) && left < right; y++ {
		copy(out[3*((y-w.top)*w.width+left-w.left):], pixels[3*(y*p.Width+left):3*(y*p.Width+right)])
	}
	return out
}

// flip mirrors the image horizontally and vertically, as the window requires.
func (p *Image) flip(w window) {
	line := 3 * p.Width
	if w.flip {
		for y := range p.Height {
			row := p.Pixels[y*line:][:line]
			for x := range p.Width / 2 {
				l, r := [3]uint8(row[3*x:]), [3]uint8(row[line-3*x-3:])
				copy(row[3*x:], r[:])
				copy(row[line-3*x-3:], l[:])
			}
		}
	}
	if w.flipUp {
		for y := range p.Height / 2 {
			upper, lower := p.Pixels[y*line:][:line], p.Pixels[(p.Height-1-y)*line:][:line]
			kept := bytes.Clone(upper)
			copy(upper, lower)
			copy(lower, kept)
		}
	}
}
