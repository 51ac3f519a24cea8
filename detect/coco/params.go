// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Params say how to evaluate. Zero fields are COCO's.
type Params struct {
	Masks         bool // evaluate masks, not boxes
	AnyCategory   bool // match whatever the category: pycocotools' useCats = 0
	IoU           []float64
	Recall        []float64
	MaxDetections []int // best of an image and category that count
	Areas         []AreaRange
}

// AreaRange is a range of sizes in square pixels, both ends included.
type AreaRange struct {
	Name      string
	Low, High float64
}

// Areas are COCO's: objects of up to 32² pixels are small, of 96² and more large; 32² itself is small and medium.
func Areas() []AreaRange {
	const most = 1e5 * 1e5
	return []AreaRange{{"all", 0, most}, {"small", 0, 32 * 32}, {"medium", 32 * 32, 96 * 96}, {"large", 96 * 96, most}}
}

// linspace is numpy's: n numbers from start to stop. Rounding included, since it decides whether a recall of 7/10
// reaches the threshold 0.7000000000000001.
func linspace(start, stop float64, n int) []float64 {
	out := make([]float64, n)
	step := (stop - start) / float64(n-1)
	for i := range out {
		out[i] = float64(float64(i)*step) + start
	}
	out[n-1] = stop
	return out
}

// filled returns p with COCO's values for zero fields.
func (p Params) filled() (Params, error) {
	if p.IoU == nil {
		p.IoU = linspace(0.5, 0.95, 10)
	}
	if p.Recall == nil {
		p.Recall = linspace(0, 1, 101)
	}
	if p.MaxDetections == nil {
		p.MaxDetections = []int{1, 10, 100}
	}
	if p.Areas == nil {
		p.Areas = Areas()
	}
	p.MaxDetections = slices.Clone(p.MaxDetections)
	slices.Sort(p.MaxDetections)
	if len(p.IoU) == 0 || len(p.IoU) > 64 || len(p.Areas) == 0 || len(p.Recall) == 0 || len(p.MaxDetections) == 0 {
		return p, errors.New("coco: want 1 to 64 IoU thresholds, recall thresholds, area ranges and numbers of detections")
	}
	if p.MaxDetections[0] < 1 || !slices.IsSorted(p.Recall) {
		return p, fmt.Errorf("coco: numbers of detections from %d, want 1 and more; recall thresholds want to rise",
			p.MaxDetections[0])
	}
	for _, t := range slices.Concat(p.IoU, p.Recall) {
		if math.IsNaN(t) {
			return p, errors.New("coco: a threshold is not a number")
		}
	}
	return p, nil
}
