// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/resample"
)

// rolloutRow returns from·rollout [tokens] of one image, where rollout follows attention through all layers (Abnar and
// Zuidema, https://arxiv.org/abs/2005.00928): A is the mean over heads, the residual connection is added, and
//
//	a = (A + I)/2, rows divided by their sums;    rollout = a[last] · … · a[first].
//
// from [tokens] contains the weight of each token of the last layer in the prediction. layers are the weights [heads,
// tokens, tokens] of each layer, the first first.
func rolloutRow(layers [][]float32, heads int, from []float64) []float64 {
	tokens := len(from)
	row := slices.Clone(from)
	for _, weights := range slices.Backward(layers) {
		next, a := make([]float64, tokens), make([]float64, tokens)
		for i, w := range row {
			for j := range a {
				a[j] = 0
				for h := range heads {
					a[j] += float64(weights[(h*tokens+i)*tokens+j]) / float64(heads)
				}
			}
			a[i]++
			floats.AddScaled(next, w/floats.Sum(a), a)
		}
		row = next
	}
	return row
}

// enlarge resizes a map [rows, cols] to [height, width] pixels bilinearly, with pixel centres at half-integers and the
// border repeated.
func enlarge(values []float64, rows, cols, height, width int) []float64 {
	across := resample.Bilinear(cols, width)
	out := make([]float64, 0, height*width)
	for _, v := range resample.Bilinear(rows, height) {
		for _, u := range across {
			var sum float64
			for i, down := range v.Weights {
				for j, right := range u.Weights {
					sum += down * right * values[(v.First+i)*cols+u.First+j]
				}
			}
			out = append(out, sum)
		}
	}
	return out
}
