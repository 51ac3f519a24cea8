// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import "slices"

// StatNames are the names of COCO's twelve metrics: average precision over IoU 0.50 to 0.95, at 0.50, at 0.75, of
// small, medium and large objects; average recall of 1, 10 and 100 detections an image, of small, medium and large
// objects.
var StatNames = [12]string{"AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"}

// mean is the mean of the values that are not -1, or -1 if there are none, summed as in numpy: a mean on the border
// between two printed digits rounds to the same side.
func mean(values []float64) float64 {
	values = slices.DeleteFunc(values, func(v float64) bool { return v <= -1 })
	if len(values) == 0 {
		return -1
	}
	return pairwise(values) / float64(len(values))
}

// pairwise is numpy's sum: up to 128 numbers in eight lanes, more in halves.
func pairwise(v []float64) (sum float64) {
	const lanes, block = 8, 128
	if len(v) > block {
		half := len(v) / 2
		half -= half % lanes
		return pairwise(v[:half]) + pairwise(v[half:])
	}
	if len(v) >= lanes {
		var r [lanes]float64
		for ; len(v) >= lanes; v = v[lanes:] {
			for k := range r {
				r[k] += v[k]
			}
		}
		sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	}
	for _, x := range v {
		sum += x
	}
	return sum
}

// averagePrecision is the mean of precision over recall, categories and IoU thresholds (iou, or all if it is 0), with
// the maximum number of detections, in an area range; -1 if nothing counts.
func (e *evaluation) averagePrecision(iou float64, area int) float64 {
	_, R, K, A, M := e.sizes()
	var values []float64
	for t, threshold := range iouThresholds {
		for k := range R * K {
			if iou == 0 || iou == threshold {
				values = append(values, e.precision[((t*R*K+k)*A+area)*M+M-1])
			}
		}
	}
	return mean(values)
}

// averageRecall is the mean of recall over categories and IoU thresholds, for an index into maxDetections.
func (e *evaluation) averageRecall(area, detections int) float64 {
	T, _, K, A, M := e.sizes()
	var values []float64
	for k := range T * K {
		values = append(values, e.recall[(k*A+area)*M+detections])
	}
	return mean(values)
}

// stats returns the twelve metrics.
func (e *evaluation) stats() [12]float64 {
	const all, small, medium, large = 0, 1, 2, 3
	most := len(maxDetections) - 1
	return [12]float64{
		e.averagePrecision(0, all), e.averagePrecision(0.5, all), e.averagePrecision(0.75, all),
		e.averagePrecision(0, small), e.averagePrecision(0, medium), e.averagePrecision(0, large),
		e.averageRecall(all, 0), e.averageRecall(all, 1), e.averageRecall(all, most),
		e.averageRecall(small, most), e.averageRecall(medium, most), e.averageRecall(large, most),
	}
}

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
