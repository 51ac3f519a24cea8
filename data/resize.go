// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"math"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/resample"
)

// Resizing as Pillow does it, bit for bit, because models depend on how their training images were reduced. Along each
// axis, output pixel i has its centre at c = (i + ½)·s in the input, s = input/output, and is the mean of the input
// pixels j around it weighted by
//
//	w(j) = k((j + ½ − c)/f) / Σ,   f = max(1, s),
//
// with the kernel k, stretched by f if the image shrinks (antialiasing) and truncated at the border. Weights are
// rounded to 22 bits, and pixels to 8 bits between the two axes. golang.org/x/image/draw rounds differently (CatmullRom
// is up to 18 levels off at edges) and has no Lanczos. Source: src/libImaging/Resample.c of Pillow 13.0 for the
// arithmetic, Keys (1981) for bicubic with a = −½.

// kernel returns k and its support: k(x) = 0 for |x| beyond it. The conversions to float64 prevent compilers from
// fusing a product with the following sum, which would round differently.
func kernel(r preprocess.Resample) (k func(x float64) float64, support float64) {
	switch r {
	case preprocess.Box:
		return func(x float64) float64 {
			if x > -0.5 && x <= 0.5 {
				return 1
			}
			return 0
		}, 0.5
	case preprocess.Bilinear:
		return resample.Linear, 1
	case preprocess.Hamming:
		return func(x float64) float64 {
			if x = math.Abs(x); x >= 1 {
				return 0
			}
			const constant, cosine = float64(float32(0.54)), float64(float32(0.46)) // floats in Pillow
			return sinc(x) * (constant + float64(cosine*math.Cos(math.Pi*x)))
		}, 1
	case preprocess.Bicubic:
		return resample.PillowCubic, 2
	case preprocess.Lanczos:
		return func(x float64) float64 {
			if x < -3 || x >= 3 {
				return 0
			}
			return sinc(x) * sinc(x/3)
		}, 3
	}
	return nil, 0
}

// sinc returns sin(πx)/(πx).
func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

const weightBits = 22 // of the weights' fraction: 32 less 8 of a pixel and 2 for sums beyond 0…1

// tap is the weights of one output pixel along an axis.
type tap struct {
	first   int // input pixel of the first weight
	weights []int32
}

// part is the visible part of an axis, in pixels: its start and its length.
type part struct{ from, length float64 }

// tapsOf computes and rounds the weights of output pixels from to end-1 of an axis.
func tapsOf(r preprocess.Resample, in int, of part, out, from, end int) []tap {
	taps := make([]tap, end-from)
	for i, t := range weightsOf(r, in, of, out, from, end) {
		taps[i] = tap{t.First, make([]int32, len(t.Weights))}
		for j, w := range t.Weights {
			taps[i].weights[j] = int32(math.Copysign(0.5, w) + float64(w*(1<<weightBits)))
		}
	}
	return taps
}

func weightsOf(r preprocess.Resample, in int, of part, out, from, end int) []resample.Taps {
	k, support := kernel(r)
	return resample.Stretched(in, of.from, of.length, out, from, end, k, support)
}

// resizeFloat is resized without rounding, as in torchvision with antialias: in Float, and rounded in Pixels.
func (p *Image) resizeFloat(height, width int, w window, r preprocess.Resample) *Image {
	columns := weightsOf(r, p.Width, part{0, float64(p.Width)}, width, w.left, w.left+w.width)
	out := &Image{Height: w.height, Width: w.width, Pixels: make([]uint8, 3*w.height*w.width),
		Float: make([]float32, 3*w.height*w.width)}
	line := make([]float64, 3*p.Width) // a row of the output before its columns are resized
	for y, row := range weightsOf(r, p.Height, part{0, float64(p.Height)}, height, w.top, w.top+w.height) {
		clear(line)
		for j, weight := range row.Weights {
			for i, v := range p.Pixels[3*(row.First+j)*p.Width:][:len(line)] {
				line[i] += weight * float64(v)
			}
		}
		for i := range 3 * w.width {
			x, c, sum := i/3, i%3, 0.0
			for j, weight := range columns[x].Weights {
				sum += weight * line[3*(columns[x].First+j)+c]
			}
			out.Float[3*y*w.width+i] = float32(sum)
			out.Pixels[3*y*w.width+i] = uint8(math.Round(min(max(sum, 0), 255)))
		}
	}
	return out
}

// Resize returns the image resized; a copy if the size is the same.
func (p *Image) Resize(height, width int, r preprocess.Resample) *Image {
	return p.resized(height, width, window{height: height, width: width}, r)
}

// resized returns a window of the image resized to height×width, which is within that.
func (p *Image) resized(height, width int, w window, r preprocess.Resample) *Image {
	if r == preprocess.Nearest {
		return p.nearest(height, width, w)
	}
	if height == p.Height && width == p.Width {
		return p.Window(w.top, w.left, w.height, w.width)
	}
	return p.resample(tapsOf(r, p.Height, part{0, float64(p.Height)}, height, w.top, w.top+w.height),
		tapsOf(r, p.Width, part{0, float64(p.Width)}, width, w.left, w.left+w.width), p.columnsFirst(height, width))
}

// columnsFirst reports whether Pillow resizes the columns before the rows, because the height shrinks much more than
// the width. Before 13.0 it always began with the rows: a few pixels differ by a level.
func (p *Image) columnsFirst(height, width int) bool {
	return p.Height > height && p.Height-height > 2*(p.Width-width)
}

// resample computes each output pixel from its taps along both axes, reading no other lines.
func (p *Image) resample(rows, columns []tap, columnsFirst bool) *Image {
	last := rows[len(rows)-1]
	first, end := rows[0].first, last.first+len(last.weights)
	p = &Image{Height: end - first, Width: p.Width, Pixels: p.Pixels[3*first*p.Width : 3*end*p.Width]}
	if columnsFirst {
		return p.resizeColumns(rows, first).resizeRows(columns)
	}
	return p.resizeRows(columns).resizeColumns(rows, first)
}

// resizeRows changes the length of rows.
func (p *Image) resizeRows(taps []tap) *Image {
	out := &Image{Height: p.Height, Width: len(taps), Pixels: make([]uint8, 3*p.Height*len(taps))}
	to := out.Pixels
	for y := range p.Height {
		row := p.Pixels[3*y*p.Width:][:3*p.Width]
		for _, t := range taps {
			in := row[3*t.first:][:3*len(t.weights)]
			r, g, b := int32(1<<(weightBits-1)), int32(1<<(weightBits-1)), int32(1<<(weightBits-1))
			for _, w := range t.weights {
				r += w * int32(in[0])
				g += w * int32(in[1])
				b += w * int32(in[2])
				in = in[3:]
			}
			to[0], to[1], to[2] = clip8(int(r>>weightBits)), clip8(int(g>>weightBits)), clip8(int(b>>weightBits))
			to = to[3:]
		}
	}
	return out
}

// resizeColumns changes the number of rows; the first line of p has number first in the taps.
func (p *Image) resizeColumns(taps []tap, first int) *Image {
	length := 3 * p.Width
	out := &Image{Height: len(taps), Width: p.Width, Pixels: make([]uint8, length*len(taps))}
	sums := make([]int32, length)
	for y, t := range taps {
		for i := range sums {
			sums[i] = 1 << (weightBits - 1)
		}
		for j, w := range t.weights {
			for i, v := range p.Pixels[(t.first-first+j)*length:][:length] {
				sums[i] += w * int32(v)
			}
		}
		row := out.Pixels[y*length:][:length]
		for i, sum := range sums {
			row[i] = clip8(int(sum >> weightBits))
		}
	}
	return out
}

// nearest returns a window of the image resized by nearest neighbour.
func (p *Image) nearest(height, width int, w window) *Image {
	out := &Image{Height: w.height, Width: w.width, Pixels: make([]uint8, 0, 3*w.height*w.width)}
	columns := resample.Nearest(p.Width, width, w.left, w.left+w.width)
	for _, y := range resample.Nearest(p.Height, height, w.top, w.top+w.height) {
		for _, x := range columns {
			at := 3 * (y*p.Width + x)
			out.Pixels = append(out.Pixels, p.Pixels[at:at+3]...)
		}
	}
	return out
}
