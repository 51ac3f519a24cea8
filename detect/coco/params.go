// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

// Areas are ranges of area for all, small, medium and large objects in square pixels, both ends included.
type Areas [4][2]float64

// cocoAreas: objects of up to 32² pixels are small, of 96² and more large; 32² itself is small and medium.
var cocoAreas = Areas{{0, 1e5 * 1e5}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e5 * 1e5}}

// COCO's thresholds.
var (
	iouThresholds    = linspace(0.5, 0.95, 10)
	recallThresholds = linspace(0, 1, 101)
	maxDetections    = [3]int{1, 10, 100} // maximum per image and category, best first
)

// linspace is numpy's: n numbers from start to stop. Its rounding matters: it decides whether a recall of 7/10 reaches
// the threshold 0.7000000000000001.
func linspace(start, stop float64, n int) []float64 {
	out := make([]float64, n)
	step := (stop - start) / float64(n-1)
	for i := range out {
		out[i] = float64(float64(i)*step) + start
	}
	out[n-1] = stop
	return out
}
