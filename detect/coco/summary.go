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

// mean is over what is not -1, -1 if nothing is left.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) {
	if v > -1 {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

func (m *mean) value() float64 {
	if m.n == 0 {
		return -1
	}
	return m.sum / float64(m.n)
}

// AveragePrecision is the mean of Precision over recall and, where they are All, over IoU thresholds and categories
// (places in Params.IoU and Categories) with the most detections, in an area range by name; -1 if nothing counts.
func (e *Evaluation) AveragePrecision(iou, category int, area string) float64 {
	p := e.Params
	R, K, A, M := len(p.Recall), len(e.Categories), len(p.Areas), len(p.MaxDetections)
	var out mean
	e.each(iou, category, area, func(t, k, a int) {
		for r := range R {
			out.add(e.Precision[(((t*R+r)*K+k)*A+a)*M+M-1])
		}
	})
	return out.value()
}

// AverageRecall is the mean of Recall in the same way, with the given place in Params.MaxDetections.
func (e *Evaluation) AverageRecall(iou, category int, area string, detections int) float64 {
	p := e.Params
	K, A, M := len(e.Categories), len(p.Areas), len(p.MaxDetections)
	var out mean
	e.each(iou, category, area, func(t, k, a int) {
		if detections < M {
			out.add(e.Recall[((t*K+k)*A+a)*M+detections])
		}
	})
	return out.value()
}

// each visits the chosen places.
func (e *Evaluation) each(iou, category int, area string, visit func(t, k, a int)) {
	a := slices.IndexFunc(e.Params.Areas, func(r AreaRange) bool { return r.Name == area })
	for t := range e.Params.IoU {
		for k := range e.Categories {
			if a >= 0 && (iou == All || iou == t) && (category == All || category == k) {
				visit(t, k, a)
			}
		}
	}
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
		e.AveragePrecision(All, k, "all"),
		e.AveragePrecision(e.threshold(0.5), k, "all"), e.AveragePrecision(e.threshold(0.75), k, "all"),
		e.AveragePrecision(All, k, "small"), e.AveragePrecision(All, k, "medium"), e.AveragePrecision(All, k, "large"),
		e.AverageRecall(All, k, "all", 0), e.AverageRecall(All, k, "all", 1), e.AverageRecall(All, k, "all", most),
		e.AverageRecall(All, k, "small", most), e.AverageRecall(All, k, "medium", most),
		e.AverageRecall(All, k, "large", most),
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
