// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package numeric has the methods of statistics that analyses and features share.
package numeric

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// MinMax maps values to [0, 1]; equal values to 0.
func MinMax(values []float64) []float64 {
	out := make([]float64, len(values))
	low := floats.Min(values)
	if span := floats.Max(values) - low; span > 0 {
		for i, v := range values {
			out[i] = (v - low) / span
		}
	}
	return out
}

// Similarities returns the cosines between the vectors [positions, width] of all positions, [positions, positions]. The
// cosine with a zero vector is 0.
func Similarities(vectors []float64, positions int) []float64 {
	out := make([]float64, 0, positions*positions)
	for i := range positions {
		out = append(out, Similarity(vectors, positions, i)...)
	}
	return out
}

// Similarity returns one row of Similarities.
func Similarity(vectors []float64, positions, to int) []float64 {
	width := len(vectors) / positions
	at := func(i int) []float64 { return vectors[i*width : (i+1)*width] }
	out := make([]float64, positions)
	for i := range out {
		if norm := math.Sqrt(floats.Dot(at(i), at(i)) * floats.Dot(at(to), at(to))); norm != 0 {
			out[i] = floats.Dot(at(i), at(to)) / norm
		}
	}
	return out
}
