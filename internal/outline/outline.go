// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package outline defines the shapes that are drawn in generated images.
package outline

import "math"

// Radius bounds every shape at scale 1: no point is farther than this from its centre, in shorter sides of the
// image. The centres of data.Shapes keep 1/4 + 1/128 of a side from the border, so nothing is ever cut.
const Radius = 0.25

// Shapes report for a square, an ellipse and a heart, in this order, whether a point belongs to the shape: in the
// upright shape's own coordinates at scale 1, y downwards. Their areas are 0.102, 0.101 and 0.132.
var Shapes = [...]func(x, y float64) bool{
	func(x, y float64) bool { return math.Abs(x) <= 0.16 && math.Abs(y) <= 0.16 }, // half its diagonal is 0.226
	func(x, y float64) bool {
		x, y = x/0.23, y/0.14
		return x*x+y*y <= 1
	},
	func(x, y float64) bool { // (x²+y²−1)³ ≤ x²y³, y upwards, times 0.19; within 1.2 of a centre moved up by 0.1
		x, y = x/0.19, -y/0.19+0.1
		r := x*x + y*y - 1
		return r*r*r <= x*x*y*y*y
	},
}
