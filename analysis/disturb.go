// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/image/draw"
	"golang.org/x/image/math/f64"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
)

// The disturbances depend only on the seed and the index of the image: they are the same for all models. Hidden and
// uncovered pixels have the mean colour of the dataset.

// occluded replaces round(share·N) of the N patches of each image, chosen at random, by the mean colour. The released
// script draws black rectangles that may overlap, and so hides a smaller share.
func occluded(set *data.InMemory, patch int, share float64, seed uint64) *data.InMemory {
	mean := meanColour(set)
	return eachPatch(set, patch, seed, func(order []int, from, to func(patch, y int) []uint8) {
		for _, p := range order[:int(math.Round(share*float64(len(order))))] {
			for y := range patch {
				row := to(p, y)
				for k := range row {
					row[k] = mean[k%set.Channels]
				}
			}
		}
	})
}

// shuffled permutes the patches of each image at random.
func shuffled(set *data.InMemory, patch int, seed uint64) *data.InMemory {
	return eachPatch(set, patch, seed, func(order []int, from, to func(patch, y int) []uint8) {
		for p, source := range order {
			for y := range patch {
				copy(to(p, y), from(source, y))
			}
		}
	})
}

// eachPatch calls change for every image with its patches in random order, and the rows of pixels of a patch in the old
// image and in the new one, which starts as a copy.
func eachPatch(set *data.InMemory, patch int, seed uint64,
	change func(order []int, from, to func(patch, y int) []uint8)) *data.InMemory {
	out := data.Head(set, set.Len()).(*data.InMemory)
	cols := set.Width / patch
	for i := range set.Len() {
		row := func(pixels []uint8) func(p, y int) []uint8 {
			return func(p, y int) []uint8 {
				at := ((p/cols*patch+y)*set.Width + p%cols*patch) * set.Channels
				return pixels[at : at+patch*set.Channels]
			}
		}
		order := rand.New(rand.NewPCG(seed, uint64(i))).Perm(set.Height / patch * cols)
		change(order, row(set.Row(i)), row(out.Row(i)))
	}
	return out
}

// movement moves an image about its centre. Angles are in degrees; a positive Rotation rotates the image
// counter-clockwise, a positive Shear moves its lower half to the left; Shift is in fractions of the sides, to the
// right and downwards.
type movement struct {
	Rotation, Shear float64
	Scale           float64 // 1 changes nothing, more enlarges
	Shift           [2]float64
}

// matrix maps coordinates of the image to coordinates of the moved image.
func (m movement) matrix(width, height int) f64.Aff3 {
	sin, cos := math.Sincos(m.Rotation * math.Pi / 180)
	tan := math.Tan(m.Shear * math.Pi / 180)
	// Rotation · shear · scale, with the y axis downwards.
	a, b, c, d := m.Scale*cos, m.Scale*(sin-cos*tan), -m.Scale*sin, m.Scale*(cos+sin*tan)
	x, y := float64(width)/2, float64(height)/2
	return f64.Aff3{a, b, x - a*x - b*y + m.Shift[0]*float64(width), c, d, y - c*x - d*y + m.Shift[1]*float64(height)}
}

// moved moves every image, with an interpolation.
func moved(set *data.InMemory, m movement, kernel draw.Transformer) *data.InMemory {
	out := data.Head(set, set.Len()).(*data.InMemory)
	mean := meanColour(set)
	fill := image.NewUniform(color.RGBA{mean[0], mean[1%set.Channels], mean[2%set.Channels], 255})
	whole := image.Rect(0, 0, set.Width, set.Height)
	for i := range set.Len() {
		canvas := image.NewRGBA(whole)
		draw.Draw(canvas, whole, fill, image.Point{}, draw.Src)
		kernel.Transform(canvas, m.matrix(set.Width, set.Height), set.RGBA(i), whole, draw.Src, nil)
		pixels := out.Row(i)
		for p := range set.Width * set.Height {
			copy(pixels[p*set.Channels:(p+1)*set.Channels], canvas.Pix[4*p:])
		}
	}
	return out
}

// sized resizes every image, as data.Image.Resize. The result has no Float, which a model would read in place of the
// Pixels that the disturbances change.
func sized(set *data.InMemory, height, width int, kernel preprocess.Resample) *data.InMemory {
	out := *set
	if out.Float = nil; set.Height == height && set.Width == width {
		return &out
	}
	out.Height, out.Width, out.Pixels = height, width, nil
	for i := range set.Len() {
		p := &data.Image{Height: set.Height, Width: set.Width, Pixels: make([]uint8, 0, 3*set.Height*set.Width)}
		for pixel := range slices.Chunk(set.RGBA(i).Pix, 4) {
			p.Pixels = append(p.Pixels, pixel[:3]...)
		}
		for pixel := range slices.Chunk(p.Resize(height, width, kernel).Pixels, 3) {
			out.Pixels = append(out.Pixels, pixel[:set.Channels]...)
		}
	}
	return &out
}

// meanColour is the mean colour of all pixels, per channel.
func meanColour(set *data.InMemory) []uint8 {
	sums := make([]uint64, set.Channels)
	for i, v := range set.Pixels {
		sums[i%set.Channels] += uint64(v)
	}
	n := uint64(len(set.Pixels) / set.Channels)
	mean := make([]uint8, set.Channels)
	for c := range mean {
		mean[c] = uint8((sums[c] + n/2) / n)
	}
	return mean
}
