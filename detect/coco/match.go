// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"cmp"
	"slices"
)

// Match is what was matched to what in one image, for one category and one area range: a row for each IoU threshold.
type Match struct {
	ImageID, CategoryID int64 // category -1: any
	Area                AreaRange

	Detections []int64   // IDs, best score first, at most the largest of MaxDetections
	Scores     []float64 // theirs
	Matched    [][]int64 // [thresholds][detections] IDs of objects, 0 for none
	Ignored    [][]bool  // [thresholds][detections] those that count neither as right nor as wrong

	Objects        []int64   // IDs, those that do not count last
	Found          [][]int64 // [thresholds][objects] IDs of detections, the last of them in a crowd, 0 for none
	IgnoredObjects []bool    // [objects] crowds, and those out of the area range
}

// object and detected are what is matched: the parts of annotations and detections that count.
type object struct {
	id    int64
	area  float64
	crowd bool
	box   Box
	mask  RLE
}

type detected struct {
	id          int64
	area, score float64
	box         Box
	mask        RLE
}

// best returns detections by falling score, ties in their order, at most n.
func best(found []detected, n int) []detected {
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b detected) int { return cmp.Compare(b.score, a.score) })
	return found[:min(n, len(found))]
}

// overlaps returns the IoU [detections][objects].
func overlaps(found []detected, objects []object, masks bool) [][]float64 {
	out := make([][]float64, len(found))
	for i, f := range found {
		out[i] = make([]float64, len(objects))
		for j, o := range objects {
			out[i][j] = BoxIoU(f.box, o.box, o.crowd)
			if masks && out[i][j] > 0 {
				out[i][j] = maskIoU(f.mask, o.mask, o.crowd)
			}
		}
	}
	return out
}

// match gives each detection, best first, the object of greatest IoU that is at least the threshold and not taken: of
// equal IoU the last, and one that counts before one that does not. A crowd is never taken. A detection without an
// object is ignored if its own area is out of the range. Source: evaluateImg of pycocotools.
func match(found []detected, objects []object, iou [][]float64, thresholds []float64, area AreaRange) Match {
	outside := func(a float64) bool { return a < area.Low || a > area.High }
	m := Match{Area: area, Objects: make([]int64, 0, len(objects)), IgnoredObjects: make([]bool, 0, len(objects))}
	order := make([]int, 0, len(objects)) // those that count first
	for _, ignored := range []bool{false, true} {
		for j, o := range objects {
			if (o.crowd || outside(o.area)) == ignored {
				order = append(order, j)
				m.Objects, m.IgnoredObjects = append(m.Objects, o.id), append(m.IgnoredObjects, ignored)
			}
		}
	}
	for _, f := range found {
		m.Detections, m.Scores = append(m.Detections, f.id), append(m.Scores, f.score)
	}
	for _, threshold := range thresholds {
		matched, ignored, taken := make([]int64, len(found)), make([]bool, len(found)), make([]int64, len(objects))
		for i, f := range found {
			const none = -1
			chosen, most := none, min(threshold, 1-1e-10)
			for k, j := range order {
				if taken[k] > 0 && !objects[j].crowd {
					continue
				}
				if chosen != none && !m.IgnoredObjects[chosen] && m.IgnoredObjects[k] {
					break
				}
				if iou[i][j] >= most {
					chosen, most = k, iou[i][j]
				}
			}
			if chosen != none {
				matched[i], taken[chosen], ignored[i] = m.Objects[chosen], f.id, m.IgnoredObjects[chosen]
			}
			ignored[i] = ignored[i] || matched[i] == 0 && outside(f.area)
		}
		m.Matched, m.Ignored, m.Found = append(m.Matched, matched), append(m.Ignored, ignored), append(m.Found, taken)
	}
	return m
}
