// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"math"
	"strconv"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// affine maps output pixels to input positions, by centres of pixels: the output at column x + ½ and row y + ½ is the
// input at
//
//	column = a·x + b·y + c,   row = d·x + e·y + f
//
// positions outside the input have the colour fill.
type affine struct {
	a, b, c, d, e, f float64
}

// rotation turns around the centre, counter-clockwise.
func rotation(height, width int, degrees float64) affine {
	if degrees = math.Mod(degrees, 360); degrees < 0 {
		degrees += 360 // Python's %
	}
	sin, cos := math.Sincos(-degrees * (math.Pi / 180))
	digits := func(v float64) float64 { // rounded as in Pillow, to be exact at right angles
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'f', 15, 64), 64)
		return v
	}
	m := affine{a: digits(cos), b: digits(sin), d: digits(-sin), e: digits(cos)}
	x, y := float64(width)/2, float64(height)/2
	m.c = float64(float64(m.a*-x)+float64(m.b*-y)) + x
	m.f = float64(float64(m.d*-x)+float64(m.e*-y)) + y
	return m
}

func translation(x, y float64) affine { return affine{a: 1, c: x, e: 1, f: y} }

// transform returns the image mapped by m as in Pillow's transform, bit for bit (Geometry.c of Pillow 9.4): the nearest
// pixel, or interpolated by the bilinear or bicubic kernel, which is not widened.
func (p *Image) transform(m affine, kernel preprocess.Resample, fill [3]uint8) *Image {
	out := &Image{Height: p.Height, Width: p.Width, Pixels: bytes.Repeat(fill[:], p.Height*p.Width)}
	switch {
	case kernel == preprocess.Bilinear || kernel == preprocess.Bicubic:
		p.interpolate(out, m, kernel)
	case m.b == 0 && m.d == 0:
		p.translate(out, m)
	default:
		p.nearestAffine(out, m)
	}
	return out
}

// translate takes the nearest pixel if rows stay rows: Pillow steps along the axes in floating point.
func (p *Image) translate(out *Image, m affine) {
	places := func(at, step float64, out, in int) []int {
		places := make([]int, out)
		for i := range places {
			if places[i] = -1; at >= 0 && int(at) < in {
				places[i] = int(at)
			}
			at += step
		}
		return places
	}
	columns := places(m.c+float64(m.a*0.5), m.a, out.Width, p.Width)
	for y, from := range places(m.f+float64(m.e*0.5), m.e, out.Height, p.Height) {
		for x, column := range columns {
			if from >= 0 && column >= 0 {
				copy(out.Pixels[3*(y*out.Width+x):][:3], p.Pixels[3*(from*p.Width+column):])
			}
		}
	}
}

// nearestAffine takes the nearest pixel in general: Pillow steps in units of 1/65,536 of a pixel.
func (p *Image) nearestAffine(out *Image, m affine) {
	fixed := func(v float64) int { return int(math.Floor(float64(v*65536) + 0.5)) }
	a, b, d, e := fixed(m.a), fixed(m.b), fixed(m.d), fixed(m.e)
	x0 := fixed(m.c + float64(m.a*0.5) + float64(m.b*0.5))
	y0 := fixed(m.f + float64(m.d*0.5) + float64(m.e*0.5))
	to := out.Pixels
	for range out.Height {
		x, y := x0, y0
		for range out.Width {
			if column, row := x>>16, y>>16; column >= 0 && column < p.Width && row >= 0 && row < p.Height {
				copy(to[:3], p.Pixels[3*(row*p.Width+column):])
			}
			to = to[3:]
			x, y = x+a, y+d
		}
		x0, y0 = x0+b, y0+e
	}
}

// interpolate weights the pixels around each position. Beyond the border columns repeat, and so do rows: the first row
// above the image; below it the last row that was computed.
func (p *Image) interpolate(out *Image, m affine, kernel preprocess.Resample) {
	taps := 2
	if kernel == preprocess.Bicubic {
		taps = 4
	}
	var lines [4]float64
	to := out.Pixels
	for y := range out.Height {
		for x := range out.Width {
			u, v := float64(x)+0.5, float64(y)+0.5
			column := float64(float64(m.a*u)+float64(m.b*v)) + m.c
			row := float64(float64(m.d*u)+float64(m.e*v)) + m.f
			at := to[:3]
			to = to[3:]
			if column < 0 || column >= float64(p.Width) || row < 0 || row >= float64(p.Height) {
				continue
			}
			left, top := math.Floor(column-0.5), math.Floor(row-0.5)
			dx, dy := column-0.5-left, row-0.5-top
			first, upper := int(left)-(taps/2-1), int(top)-(taps/2-1)
			var columns [4]int
			for k := range taps {
				columns[k] = 3 * min(max(first+k, 0), p.Width-1)
			}
			for c := range 3 {
				for k := range taps {
					switch line := upper + k; {
					case k > 0 && (line < 0 || line >= p.Height):
						lines[k] = lines[k-1]
					default:
						in := p.Pixels[3*min(max(line, 0), p.Height-1)*p.Width+c:]
						lines[k] = between(in, &columns, taps, dx)
					}
				}
				at[c] = clip8(int(blendLines(&lines, taps, dy)))
			}
		}
	}
}

// between interpolates along a row.
func between(row []uint8, columns *[4]int, taps int, d float64) float64 {
	var v [4]float64
	for k := range taps {
		v[k] = float64(row[columns[k]])
	}
	return blendLines(&v, taps, d)
}

// blendLines interpolates at d between two values, or four at −1, 0, 1, 2 (Keys' cubic with a = −1), in Pillow's order
// of operations.
func blendLines(v *[4]float64, taps int, d float64) float64 {
	if taps == 2 {
		return v[0] + float64((v[1]-v[0])*d)
	}
	p1, p2 := v[1], -v[0]+v[2]
	p3, p4 := float64(2*(v[0]-v[1]))+v[2]-v[3], -v[0]+v[1]-v[2]+v[3]
	return p1 + float64(d*(p2+float64(d*(p3+float64(d*p4)))))
}
