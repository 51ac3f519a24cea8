// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"math"
	"math/rand/v2"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/random"
)

// operation changes an image in place by an amount, whose unit is in its row below.
type operation func(p *Image, amount float64, around surroundings) *Image

// surroundings are the interpolation kernel of operations that move pixels, and the colour outside the image.
type surroundings struct {
	kernel preprocess.Resample // Nearest, Bilinear or Bicubic
	fill   [3]uint8
	r      *rand.Rand // for operations that choose a position
}

// operations are the operations of policies, by their names in timm and big_vision. Results equal Pillow's bit
// for bit, but for the last bit of a sine (Rotate).
var operations = map[string]operation{
	"AutoContrast": recolour(func(p *Image, _ float64) { p.autocontrast() }),
	"Equalize":     recolour(func(p *Image, _ float64) { p.equalize() }),
	"Invert":       point(func(v int, _ float64) int { return 255 - v }),
	"Grey":         recolour(func(p *Image, _ float64) { p.grey() }),
	"Posterize":    point(func(v int, bits float64) int { return v &^ (1<<max(0, 8-int(bits)) - 1) }),
	"Solarize": point(func(v int, threshold float64) int {
		if float64(v) < threshold {
			return v
		}
		return 255 - v
	}),
	"SolarizeAdd": point(func(v int, added float64) int { // timm, and the first RandAugment
		if v < 128 {
			return v + int(added)
		}
		return v
	}),
	"Color":        recolour((*Image).color),                                                 // factor, 1 for no change
	"Contrast":     recolour((*Image).contrast),                                              // factor
	"Brightness":   recolour((*Image).brightness),                                            // factor
	"Sharpness":    recolour((*Image).sharpness),                                             // factor
	"Hue":          recolour(func(p *Image, turn float64) { p.hue(uint8(int(turn * 255))) }), // of the circle
	"GaussianBlur": recolour((*Image).blur),                                                  // σ in pixels
	"Cutout":       cutout,                                                                   // half of the side
	"Rotate":       move(func(p *Image, degrees float64) affine { return rotation(p.Height, p.Width, degrees) }),
	"ShearX":       move(func(_ *Image, factor float64) affine { return affine{a: 1, b: factor, e: 1} }),
	"ShearY":       move(func(_ *Image, factor float64) affine { return affine{a: 1, d: factor, e: 1} }),
	"TranslateX":   move(func(_ *Image, pixels float64) affine { return translation(pixels, 0) }),
	"TranslateY":   move(func(_ *Image, pixels float64) affine { return translation(0, pixels) }),
}

// point is an operation that replaces every value by a function of it and of the amount.
func point(value func(v int, amount float64) int) operation {
	return recolour(func(p *Image, amount float64) {
		var table [256]uint8
		for v := range table {
			table[v] = clip8(value(v, amount))
		}
		for c := range 3 {
			p.lookup(c, &table)
		}
	})
}

// recolour is an operation that changes colours in place.
func recolour(change func(p *Image, amount float64)) operation {
	return func(p *Image, amount float64, _ surroundings) *Image {
		change(p, amount)
		return p
	}
}

// move is an operation that moves pixels.
func move(to func(p *Image, amount float64) affine) operation {
	return func(p *Image, amount float64, around surroundings) *Image {
		return p.transform(to(p, amount), around.kernel, around.fill)
	}
}

func cutout(p *Image, half float64, around surroundings) *Image {
	side := 2 * int(half)
	p.fillBox(box(around.r.IntN(p.Height), around.r.IntN(p.Width), side, side, p.Height, p.Width),
		func() [3]uint8 { return around.fill })
	return p
}

// fillBox sets the pixels of a box, each to its own colour.
func (p *Image) fillBox(box [4]float32, colour func() [3]uint8) {
	for y := int(box[0]); y < int(box[2]); y++ {
		for x := int(box[1]); x < int(box[3]); x++ {
			c := colour()
			copy(p.Pixels[3*(y*p.Width+x):], c[:])
		}
	}
}

// erase is random erasing (Zhong et al. 2017, https://arxiv.org/abs/1708.04896): a box of an area uniform in scale and
// a height/width log-uniform between 3/10 and 10/3, in ten tries, anywhere in the image. Torchvision and timm erase
// after normalization: a normalized 0 is the mean here, and timm's normal noise is mean + std·noise, both rounded to
// bytes and the noise clipped to their range.
func (p *Image) erase(scale [2]float64, noise bool, mean, std [3]float64, r *rand.Rand) {
	for range 10 {
		area := float64(p.Height*p.Width) * (scale[0] + r.Float64()*(scale[1]-scale[0]))
		ratio := math.Exp((2*r.Float64() - 1) * math.Log(10.0/3))
		h, w := int(math.Round(math.Sqrt(area*ratio))), int(math.Round(math.Sqrt(area/ratio)))
		if h >= p.Height || w >= p.Width {
			continue
		}
		top, left := r.IntN(p.Height-h+1), r.IntN(p.Width-w+1)
		p.fillBox([4]float32{float32(top), float32(left), float32(top + h), float32(left + w)}, func() (c [3]uint8) {
			for k := range c {
				v := mean[k]
				if noise {
					v += float64(std[k] * r.NormFloat64())
				}
				c[k] = clip8(int(math.Round(255 * v)))
			}
			return c
		})
		return
	}
}

// onHost reports whether images are cropped, resized and changed on the host: if a has any operation that only the host
// has.
func (a Augment) onHost() bool {
	return a.Interpolation != "" || a.Policy != "" || a.Rotate != 0 || a.Jitter != [4]float64{} || a.GrayscaleProb != 0 ||
		a.RandomErasingProb != 0 || a.EraseScale != [2]float64{} || a.EraseNoise
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
	shown := p.Window(w.top, w.left, w.height, w.width).Resize(height, width, cmp.Or(a.Interpolation, preprocess.Bilinear))
	return a.change(shown.flipped(w), seed, epoch, index)
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
	if a.GrayscaleProb > 0 && r.Float64() < a.GrayscaleProb {
		p.grey()
	}
	if a.RandomErasingProb > 0 && r.Float64() < a.RandomErasingProb {
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

// Window returns a copy of a part of the image, black beyond the border.
func (p *Image) Window(top, left, height, width int) *Image {
	w := window{top: top, left: left, height: height, width: width}
	return &Image{Height: height, Width: width, Pixels: cut(p, p.Pixels, w, [3]uint8{})}
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

// flipped returns the image mirrored as the window requires.
func (p *Image) flipped(w window) *Image {
	if w.flip {
		p = p.Mirrored()
	}
	if w.flipUp {
		p = p.turned(upsideDown)
	}
	return p
}
