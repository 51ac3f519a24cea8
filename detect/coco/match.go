// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"cmp"
	"slices"
)

// object and detected are the parts of annotations and detections for matching.
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

// best sorts detections by decreasing score, ties in their order, and returns at most n.
func best(found []detected, n int) []detected {
	slices.SortStableFunc(found, func(a, b detected) int { return cmp.Compare(b.score, a.score) })
	return found[:min(n, len(found))]
}

// overlaps returns the IoU [detections][objects].
func overlaps(found []detected, objects []object, masks bool) [][]float64 {
	out := make([][]float64, len(found))
	for i, f := range found {
		out[i] = make([]float64, len(objects))
		for j, o := range objects {
			out[i][j] = boxIoU(f.box, o.box, o.crowd)
			if masks && out[i][j] > 0 {
				out[i][j] = maskIoU(f.mask, o.mask, o.crowd)
			}
		}
	}
	return out
}

// matches are the matches of one image, category and area range.
type matches struct {
	order   []int   // of objects, counting ones first
	skipped []bool  // [objects] in this order: does not count
	matched []int64 // [thresholds·detections] IDs of objects
	ignored []bool  // [thresholds·detections]
	taken   []int64 // [thresholds·objects] IDs of detections, objects in this order
}

// match assigns to each detection, best first, the untaken object with the largest IoU, at least the threshold: for
// equal IoU the last one, and counting objects before others. A crowd is never taken. A detection without an object is
// ignored if its own area is out of the range. Source: evaluateImg of pycocotools.
func match(found []detected, objects []object, iou [][]float64, area [2]float64) (m matches) {
	outside := func(a float64) bool { return a < area[0] || a > area[1] }
	for _, skipped := range []bool{false, true} {
		for j, o := range objects {
			if (o.crowd || outside(o.area)) == skipped {
				m.order, m.skipped = append(m.order, j), append(m.skipped, skipped)
			}
		}
	}
	m.matched, m.ignored = make([]int64, len(iouThresholds)*len(found)), make([]bool, len(iouThresholds)*len(found))
	m.taken = make([]int64, len(iouThresholds)*len(objects))
	for t, threshold := range iouThresholds {
		matched, ignored := m.matched[t*len(found):][:len(found)], m.ignored[t*len(found):][:len(found)]
		taken := m.taken[t*len(objects):][:len(objects)]
		for i, f := range found {
			const none = -1
			chosen, most := none, threshold
			for k, j := range m.order {
				if taken[k] > 0 && !objects[j].crowd {
					continue
				}
				if chosen != none && !m.skipped[chosen] && m.skipped[k] {
					break
				}
				if iou[i][j] >= most {
					chosen, most = k, iou[i][j]
				}
			}
			if chosen != none {
				matched[i], taken[chosen], ignored[i] = objects[m.order[chosen]].id, f.id, m.skipped[chosen]
			}
			ignored[i] = ignored[i] || matched[i] == 0 && outside(f.area)
		}
	}
	return m
}
