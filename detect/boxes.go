// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"slices"
)

// Box is left, top, right and bottom in pixels, to the right and downwards from the outer corner of the first pixel. It
// is float32, as in graphs, so that comparisons of overlaps have the same result on host and device.
type Box [4]float32

// area is width times height.
func (b Box) area() float32 { return (b[2] - b[0]) * (b[3] - b[1]) }

// Empty reports whether it has no width or no height.
func (b Box) Empty() bool { return !(b[2]-b[0] > 0) || !(b[3]-b[1] > 0) }

// clip moves its sides into an image of rows × cols pixels.
func (b Box) clip(rows, cols int) Box {
	for i := range b {
		side := cols
		if i%2 == 1 {
			side = rows
		}
		b[i] = min(max(b[i], 0), float32(side))
	}
	return b
}

// boxIoU is the intersection of two boxes over their union, 0 if they at most touch.
func boxIoU(a, b Box) float32 {
	width, height := min(a[2], b[2])-max(a[0], b[0]), min(a[3], b[3])-max(a[1], b[1])
	if !(width > 0) || !(height > 0) {
		return 0
	}
	both := width * height
	return both / (a.area() + b.area() - both)
}

// byScore returns the indices of the n highest scores, or of all, in decreasing order, equal ones in their order. It
// sorts only scores above the lowest that are kept so far: few of many.
func byScore(scores []float32, n int) []int {
	order := func(i, j int) int { return cmp.Or(cmp.Compare(scores[j], scores[i]), i-j) }
	n = min(n, len(scores))
	var kept []int // the first n are sorted if pruned
	pruned := false
	for i := range scores {
		if pruned && order(kept[n-1], i) < 0 {
			continue
		}
		if kept = append(kept, i); len(kept) == 2*n {
			slices.SortFunc(kept, order)
			kept, pruned = kept[:n], true
		}
	}
	slices.SortFunc(kept, order)
	return kept[:n]
}

// nms is greedy non-maximum suppression: in order of decreasing score it keeps each box whose IoU with every kept box
// of the same group is at most overlap, up to limit boxes, and returns their indices in this order.
func nms(boxes []Box, scores []float32, groups []int, overlap float32, limit int) []int {
	var keep []int
	of := map[int][]Box{} // kept boxes by group
	for _, i := range byScore(scores, len(scores)) {
		if len(keep) == limit {
			break
		}
		group := groups[i]
		if !slices.ContainsFunc(of[group], func(kept Box) bool { return boxIoU(kept, boxes[i]) > overlap }) {
			keep = append(keep, i)
			of[group] = append(of[group], boxes[i])
		}
	}
	return keep
}
