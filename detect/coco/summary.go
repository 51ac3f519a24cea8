// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"fmt"
	"slices"
	"strings"
)

// StatNames are the names of the twelve numbers: average precision over IoU 0.50 to 0.95, at 0.50, at 0.75, of small,
// medium and large objects; average recall of 1, 10 and 100 detections an image, of small, medium and large objects.
var StatNames = [12]string{"AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"}

// All stands for all categories, or all IoU thresholds.
const All = -1

// mean is over what is not -1, -1 if nothing is left, added up as numpy does: a mean on the border between two printed
// digits falls to the same side.
func mean(values []float64) float64 {
	values = slices.DeleteFunc(values, func(v float64) bool { return v <= -1 })
	if len(values) == 0 {
		return -1
	}
	return pairwise(values) / float64(len(values))
}

// pairwise is numpy's sum: of up to 128 numbers in eight lanes, of more in halves.
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

// averagePrecision is the mean of Precision over recall and, where they are All, over IoU thresholds and categories
// (positions in Params.IoU and Categories) with the most detections, in an area range by name; -1 if nothing counts.
func (e *Evaluation) averagePrecision(iou, category int, area string) float64 {
	p := e.Params
	R, K, A, M := len(p.Recall), len(e.Categories), len(p.Areas), len(p.MaxDetections)
	var values []float64
	thresholds, classes, a := e.places(iou, category, area)
	for _, t := range thresholds {
		for r := range R {
			for _, k := range classes {
				values = append(values, e.Precision[(((t*R+r)*K+k)*A+a)*M+M-1])
			}
		}
	}
	return mean(values)
}

// averageRecall is the mean of Recall in the same way, with the given place in Params.MaxDetections.
func (e *Evaluation) averageRecall(iou, category int, area string, detections int) float64 {
	p := e.Params
	K, A, M := len(e.Categories), len(p.Areas), len(p.MaxDetections)
	var values []float64
	thresholds, classes, a := e.places(iou, category, area)
	for _, t := range thresholds {
		for _, k := range classes {
			if detections < M {
				values = append(values, e.Recall[((t*K+k)*A+a)*M+detections])
			}
		}
	}
	return mean(values)
}

// positions are those of IoU thresholds and categories, and that of the area range; none if there is no such range.
func (e *Evaluation) places(iou, category int, area string) (thresholds, categories []int, a int) {
	a = slices.IndexFunc(e.Params.Areas, func(r AreaRange) bool { return r.Name == area })
	for t := range e.Params.IoU {
		if a >= 0 && (iou == All || iou == t) {
			thresholds = append(thresholds, t)
		}
	}
	for k := range e.Categories {
		if category == All || category == k {
			categories = append(categories, k)
		}
	}
	return thresholds, categories, a
}

// threshold is the place of an IoU threshold, one that there is not if it is none of them.
func (e *Evaluation) threshold(iou float64) int {
	if t := slices.Index(e.Params.IoU, iou); t >= 0 {
		return t
	}
	return len(e.Params.IoU)
}

// Stats returns the twelve numbers of all categories, in the order of StatNames: fractions of 1, or -1.
func (e *Evaluation) Stats() [12]float64 { return e.CategoryStats(All) }

// CategoryStats returns the twelve numbers of one category by its place in Categories.
func (e *Evaluation) CategoryStats(k int) [12]float64 {
	most := len(e.Params.MaxDetections) - 1
	return [12]float64{
		e.averagePrecision(All, k, "all"),
		e.averagePrecision(e.threshold(0.5), k, "all"), e.averagePrecision(e.threshold(0.75), k, "all"),
		e.averagePrecision(All, k, "small"), e.averagePrecision(All, k, "medium"), e.averagePrecision(All, k, "large"),
		e.averageRecall(All, k, "all", 0), e.averageRecall(All, k, "all", 1), e.averageRecall(All, k, "all", most),
		e.averageRecall(All, k, "small", most), e.averageRecall(All, k, "medium", most),
		e.averageRecall(All, k, "large", most),
	}
}

// Summary returns the twelve lines that summarize of pycocotools prints.
func (e *Evaluation) Summary() string {
	p := e.Params
	var out strings.Builder
	for i, value := range e.Stats() {
		title, kind := "Average Precision", "(AP)"
		if i >= 6 {
			title, kind = "Average Recall", "(AR)"
		}
		iou := fmt.Sprintf("%.2f:%.2f", p.IoU[0], p.IoU[len(p.IoU)-1])
		switch i {
		case 1:
			iou = "0.50"
		case 2:
			iou = "0.75"
		}
		area, most := "all", p.MaxDetections[len(p.MaxDetections)-1]
		switch i {
		case 3, 9:
			area = "small"
		case 4, 10:
			area = "medium"
		case 5, 11:
			area = "large"
		case 6, 7:
			most = p.MaxDetections[min(i-6, len(p.MaxDetections)-1)]
		}
		fmt.Fprintf(&out, " %-18s %s @[ IoU=%-9s | area=%6s | maxDets=%3d ] = %.3f\n", title, kind, iou, area, most, value)
	}
	return out.String()
}
