// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package cubic is the kernel of cubic convolution for resizing images and tables of positions.
package cubic

import "math"

// Kernel is the kernel of Keys (1981) with its free parameter a, 0 from distance 2 on: -1/2 in Pillow and timm, -3/4 in
// torch. The order of operations is Pillow's; the conversions prevent compilers from fusing a product with the
// following sum, which would round differently on some processors.
func Kernel(x, a float64) float64 {
	switch x = math.Abs(x); {
	case x < 1:
		return float64(float64((float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
	}
	return 0
}
