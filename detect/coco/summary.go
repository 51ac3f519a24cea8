// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import "slices"

// StatNames are the names of the twelve numbers: average precision over IoU 0.50 to 0.95, at 0.50, at 0.75, of small,
// medium and large objects; average recall of 1, 10 and 100 detections an image, of small, medium and large objects.
var StatNames = [12]string{"AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"}

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

// stats are numbers of some categories, by their places in Categories.
type stats struct {
	*Evaluation
	categories []int
}

// precision is the mean of Precision over recall, categories and IoU thresholds, iou or all where it is 0, with the
// most detections, in an area range by name; -1 if nothing counts.
func (s stats) precision(iou float64, area string) float64 {
	p := s.Params
	K, A, M := len(s.Categories), len(p.Areas), len(p.MaxDetections)
	var values []float64
	if a := s.area(area); a >= 0 {
		for t := range p.IoU {
			for r := range p.Recall {
				for _, k := range s.categories {
					if iou == 0 || iou == p.IoU[t] {
						values = append(values, s.Precision[(((t*len(p.Recall)+r)*K+k)*A+a)*M+M-1])
					}
				}
			}
		}
	}
	return mean(values)
}

// recall is the mean of Recall over categories and IoU thresholds, with the given place in Params.MaxDetections.
func (s stats) recall(area string, detections int) float64 {
	p := s.Params
	K, A, M := len(s.Categories), len(p.Areas), len(p.MaxDetections)
	var values []float64
	if a := s.area(area); a >= 0 && detections < M {
		for t := range p.IoU {
			for _, k := range s.categories {
				values = append(values, s.Recall[((t*K+k)*A+a)*M+detections])
			}
		}
	}
	return mean(values)
}

// area is the place of an area range, -1 if there is none of that name.
func (s stats) area(name string) int {
	return slices.IndexFunc(s.Params.Areas, func(r AreaRange) bool { return r.Name == name })
}

// all are the twelve numbers, in the order of StatNames.
func (s stats) all() [12]float64 {
	most := len(s.Params.MaxDetections) - 1
	return [12]float64{
		s.precision(0, "all"), s.precision(0.5, "all"), s.precision(0.75, "all"),
		s.precision(0, "small"), s.precision(0, "medium"), s.precision(0, "large"),
		s.recall("all", 0), s.recall("all", 1), s.recall("all", most),
		s.recall("small", most), s.recall("medium", most), s.recall("large", most),
	}
}

// Stats returns the twelve numbers of all categories, in the order of StatNames: fractions of 1, or -1.
func (e *Evaluation) Stats() [12]float64 {
	all := make([]int, len(e.Categories))
	for k := range all {
		all[k] = k
	}
	return stats{e, all}.all()
}
