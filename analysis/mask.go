// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import "math"

// iou is the intersection over the union of a mask and the pixels whose value is at least the threshold; NaN where both
// are empty.
func iou(mask []bool, values []float64, threshold float64) float64 {
	both, either := 0, 0
	for i, object := range mask {
		attended := values[i] >= threshold
		if object && attended {
			both++
		}
		if object || attended {
			either++
		}
	}
	return float64(both) / float64(either)
}

// pointBiserial is Pearson's correlation of a mask, as 0 and 1, and values, and its two-sided p with n−2 degrees of
// freedom; both NaN where it is undefined: all or no pixels in the mask, or constant values.
func pointBiserial(mask []bool, values []float64) (r, p float64) {
	object := make([]float64, len(mask))
	for i, m := range mask {
		if m {
			object[i] = 1
		}
	}
	r = pearson(object, values)
	degrees := float64(len(mask) - 2)
	if math.IsNaN(r) || degrees < 1 {
		return r, math.NaN()
	}
	return r, twoSided(r*math.Sqrt(degrees/(1-r*r)), degrees)
}
