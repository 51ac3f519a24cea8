// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package resample has the resize kernels of images and position tables.
package resample

import "math"

// Cubic is the kernel of Keys (1981) with its free parameter a, 0 from distance 2 on: -1/2 in Pillow and timm, -3/4 in
// torch. The order of operations is Pillow's; the conversions prevent compilers from fusing a product with the
// following sum, which would round differently on some processors.
func Cubic(x, a float64) float64 {
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
