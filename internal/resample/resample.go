// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package resample resamples images and position tables along one axis.
package resample

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// Taps are the weights of one new position: Weights[i] belongs to the old position First + i.
type Taps struct {
	First   int
	Weights []float64
}

// Clamped returns the taps of m new positions on an axis of n, around (i+½)·n/(m+offset) − ½, weighted by the kernel of
// the distance in old positions, which is 0 from radius on. Positions outside are clamped to the border.
func Clamped(n, m int, offset float64, kernel func(distance float64) float64, radius int) []Taps {
	all := make([]Taps, m)
	for i := range all {
		centre := (float64(i)+0.5)*float64(n)/(float64(m)+offset) - 0.5
		floor := math.Floor(centre)
		clamped := func(k int) int { return min(max(int(floor)+k, 0), n-1) }
		t := Taps{clamped(1 - radius), make([]float64, clamped(radius)-clamped(1-radius)+1)}
		for k := 1 - radius; k <= radius; k++ {
			t.Weights[clamped(k)-t.First] += kernel(centre - floor - float64(k))
		}
		all[i] = t
	}
	return all
}

// Stretched returns the taps of the new positions begin to end-1 of out on an axis of in, as Pillow computes them: the
// part of the axis from position from on, of the given length, becomes out positions. If it shrinks, the kernel, which
// is 0 beyond its support, is stretched (antialiasing); weights outside the axis are dropped and the others sum to 1.
// The conversions prevent compilers from fusing a product with the following sum, which would round differently.
func Stretched(in int, from, length float64, out, begin, end int, kernel func(float64) float64,
	support float64) []Taps {
	scale := length / float64(out)
	widening := max(1, scale)
	support *= widening
	all := make([]Taps, 0, end-begin)
	weights := make([]float64, 0, (end-begin)*(2*int(math.Ceil(support))+1))
	for i := begin; i < end; i++ {
		centre := from + float64((float64(i)+0.5)*scale)
		first, last := max(0, int(centre-support+0.5)), min(in, int(centre+support+0.5))
		start, sum := len(weights), 0.0
		for j := first; j < last; j++ {
			w := kernel((float64(j) - centre + 0.5) * (1 / widening))
			weights, sum = append(weights, w), sum+w
		}
		own := weights[start:]
		for j := range own {
			if sum != 0 {
				own[j] /= sum
			}
		}
		all = append(all, Taps{first, own})
	}
	return all
}

// Corners returns the taps of linear interpolation between the corners of an axis, at i·(n-1)/(m-1).
func Corners(n, m int) []Taps {
	all := make([]Taps, m)
	for i := range all {
		at := 0.0
		if m > 1 {
			at = float64(i) * float64(n-1) / float64(m-1)
		}
		place := min(int(at), max(n-2, 0))
		part := at - float64(place)
		all[i] = Taps{place, []float64{1 - part, part}[:min(n, 2)]}
	}
	return all
}

// Linear is the kernel of linear interpolation, 0 from distance 1 on.
func Linear(x float64) float64 { return max(0, 1-math.Abs(x)) }

// TorchCubic is torch's cubic kernel, 0 from distance 2 on.
func TorchCubic(x float64) float64 { return cubic(x, -0.75) }

// PillowCubic is the cubic kernel of Pillow and timm, 0 from distance 2 on.
func PillowCubic(x float64) float64 { return cubic(x, -0.5) }

// cubic is the kernel of Keys (1981) with its free parameter a. The order of operations is Pillow's; the conversions
// are as in Stretched.
func cubic(x, a float64) float64 {
	switch x = math.Abs(x); {
	case x < 1:
		return float64(float64((float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
	}
	return 0
}

// Nearest returns the input line of each of out lines in nearest-neighbour resizing of in lines. Positions are
// summed step by step, as in Pillow, since this decides ties.
func Nearest(in, out, from, end int) []int {
	lines, step := make([]int, 0, end-from), float64(in)/float64(out)
	at := step * 0.5
	for i := range end {
		if i >= from {
			lines = append(lines, min(in-1, int(at)))
		}
		at += step
	}
	return lines
}

// Bilinear and Bicubic are the taps of torch's interpolation of n to m positions, with half-pixel centres and without
// antialias; Antialiased is Bilinear with it.
func Bilinear(n, m int) []Taps    { return Clamped(n, m, 0, Linear, 2) }
func Bicubic(n, m int) []Taps     { return Clamped(n, m, 0, TorchCubic, 2) }
func Antialiased(n, m int) []Taps { return Stretched(n, 0, float64(n), m, 0, m, Linear, 1) }

// Table resamples a table [·, ·, channels] of any grid to rows × cols, row by row: [rows·cols, channels].
func Table(x *Node, taps func(n, m int) []Taps, rows, cols int) *Node {
	x = Axis(x, taps, rows)                            // [rows, ·, channels]
	x = Axis(TransposeAllAxes(x, 1, 0, 2), taps, cols) // [cols, rows, channels]
	return Reshape(TransposeAllAxes(x, 1, 0, 2), rows*cols, -1)
}

// Axis resamples the first axis of x [n, …] to m positions by a product with constant weights, which has a gradient on
// every backend, unlike Interpolate.
func Axis(x *Node, taps func(n, m int) []Taps, m int) *Node {
	dims := append([]int{m}, x.Shape().Dimensions[1:]...)
	n := x.Shape().Dim(0)
	if n == m {
		return x
	}
	weights := make([]float32, m*n)
	for i, t := range taps(n, m) {
		for j, w := range t.Weights {
			weights[i*n+t.First+j] = float32(w)
		}
	}
	return Reshape(MatMul(Reshape(Const(x.Graph(), weights), m, n), Reshape(x, n, -1)), dims...)
}
