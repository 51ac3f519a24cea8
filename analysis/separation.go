// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Strongest returns the k patches with the largest weights, the strongest first, of the weights [patches] that the
// answer gives to them.
func Strongest(weights []float64, k int) []int {
	order := make([]int, len(weights))
	floats.Argsort(slices.Clone(weights), order)
	slices.Reverse(order)
	return order[:min(k, len(order))]
}

// Separation is the mean distance on the grid between the pairs of some patches, in patches; NaN for fewer than two.
func (g Grid) Separation(patches []int) float64 {
	sum, pairs := 0.0, 0.0
	for a, i := range patches {
		for _, j := range patches[a+1:] {
			sum += g.Distance(i, j)
			pairs++
		}
	}
	return sum / pairs
}

// errorBin is the part of wrong answers among the images whose separation is in [Low, High).
type errorBin struct {
	Low, High float64
	Images    int
	Rate      float64 // NaN without images
	Deviation float64 // √(rate·(1−rate)/images), of a binomial rate
}

// errorBySeparation divides images between the percentiles low and high (in parts of 1) of their separations into equal
// bins; those beyond fall into the outer ones. Separations that are NaN do not count.
func errorBySeparation(separation []float64, wrong []bool, bins int, low, high float64) []errorBin {
	var known []float64
	for _, s := range separation {
		if !math.IsNaN(s) {
			known = append(known, s)
		}
	}
	if len(known) == 0 {
		return nil
	}
	from, to := quantile(known, low), quantile(known, high)
	out := make([]errorBin, bins)
	for k := range out {
		out[k].Low = from + (to-from)*float64(k)/float64(bins)
		out[k].High = from + (to-from)*float64(k+1)/float64(bins)
	}
	for i, s := range separation {
		if math.IsNaN(s) {
			continue
		}
		k := 0
		if to > from {
			k = min(max(int((s-from)/(to-from)*float64(bins)), 0), bins-1)
		}
		out[k].Images++
		if wrong[i] {
			out[k].Rate++
		}
	}
	for k := range out {
		n := float64(out[k].Images)
		out[k].Rate /= n
		out[k].Deviation = math.Sqrt(out[k].Rate * (1 - out[k].Rate) / n)
	}
	return out
}
