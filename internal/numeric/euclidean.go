// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package numeric

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Silhouettes returns the silhouette of each of the points [n, width] by label (Rousseeuw 1987): (b−a)/max(a, b), with
// its mean distance a to the others of its group and b to the nearest other group; 0 for a point alone in its group;
// nil for fewer than two groups.
func Silhouettes(points []float64, labels []int) (each []float64) {
	n := len(labels)
	size := map[int]float64{}
	for _, label := range labels {
		size[label]++
	}
	if len(size) < 2 {
		return nil
	}
	squared := SquaredDistances(points, n)
	for i, own := range labels {
		sums := map[int]float64{}
		for j, label := range labels {
			sums[label] += math.Sqrt(squared[i*n+j])
		}
		value := 0.0
		if size[own] > 1 {
			a, b := sums[own]/(size[own]-1), math.Inf(1)
			for label := range size {
				if label != own {
					b = min(b, sums[label]/size[label])
				}
			}
			if larger := max(a, b); larger > 0 {
				value = (b - a) / larger
			}
		}
		each = append(each, value)
	}
	return each
}

// NearestR2 predicts targets[c] [n] of each of the points [n, width] as the mean of its k nearest others. It returns
// predictions of the same shape, and R², the mean over targets; NaN if a target is constant.
func NearestR2(points []float64, targets [][]float64, k int) (predicted [][]float64, r2 float64) {
	n := len(targets[0])
	squared := SquaredDistances(points, n)
	predicted = make([][]float64, len(targets))
	for c := range predicted {
		predicted[c] = make([]float64, n)
	}
	for i := range n {
		var nearest []int
		for j := range n {
			if j != i {
				nearest = append(nearest, j)
			}
		}
		slices.SortStableFunc(nearest, func(a, b int) int { return cmp.Compare(squared[i*n+a], squared[i*n+b]) })
		nearest = nearest[:min(k, n-1)]
		for c, target := range targets {
			for _, j := range nearest {
				predicted[c][i] += target[j] / float64(len(nearest))
			}
		}
	}
	for c, target := range targets {
		r2 += stat.RSquaredFrom(predicted[c], target, nil) / float64(len(targets))
	}
	return predicted, r2
}

// SquaredDistances returns the squared distances between points [n, width], [n, n].
func SquaredDistances(points []float64, n int) []float64 {
	width := len(points) / n
	out := make([]float64, n*n)
	for i := range n {
		for j := range i {
			sum := 0.0
			for c := range width {
				d := points[i*width+c] - points[j*width+c]
				sum += d * d
			}
			out[i*n+j], out[j*n+i] = sum, sum
		}
	}
	return out
}
