// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

var undefined = math.NaN()

// pearson is the correlation of x and y, NaN if it is undefined: fewer than two values, or one of them constant.
func pearson(x, y []float64) float64 {
	if len(x) < 2 || constant(x) || constant(y) {
		return undefined
	}
	return stat.Correlation(x, y, nil)
}

// constant reports whether values differ only by float32 rounding.
func constant(x []float64) bool {
	low, high := floats.Min(x), floats.Max(x)
	return !(high-low > 1e-7*max(math.Abs(low), math.Abs(high)))
}

// pairedT is Student's t of the differences a − b, and its two-sided p with n−1 degrees of freedom. Both are NaN for
// fewer than two pairs and if all differences are equal.
func pairedT(a, b []float64) (t, p float64) {
	d := make([]float64, len(a))
	floats.SubTo(d, a, b)
	n := float64(len(d))
	if n < 2 || constant(d) {
		return undefined, undefined
	}
	mean, deviation := stat.MeanStdDev(d, nil)
	t = mean / (deviation / math.Sqrt(n))
	return t, 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Survival(math.Abs(t))
}

// bothDefined returns the pairs of a and b of which neither is NaN.
func bothDefined(a, b []float64) (x, y []float64) {
	for i, v := range a {
		if !math.IsNaN(v) && !math.IsNaN(b[i]) {
			x, y = append(x, v), append(y, b[i])
		}
	}
	return x, y
}

// quantile interpolates linearly between the ordered values at q·(n−1), as NumPy does.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	i := int(at)
	return sorted[i] + (at-float64(i))*(sorted[min(i+1, len(sorted)-1)]-sorted[i])
}

// variation is the coefficient of variation, the population deviation over the mean; NaN for no values.
func variation(values []float64) float64 {
	mean, deviation := stat.PopMeanStdDev(values, nil)
	return deviation / mean
}

// iou is the intersection over the union of a mask and the pixels whose value is at least the threshold; NaN if both
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

// pointBiserial is Pearson's correlation of a mask, as 0 and 1, and values.
func pointBiserial(mask []bool, values []float64) float64 { return pearson(indicator(mask), values) }

// indicator is 1 where a condition holds, otherwise 0.
func indicator(holds []bool) []float64 {
	out := make([]float64, len(holds))
	for i, h := range holds {
		if h {
			out[i] = 1
		}
	}
	return out
}
