// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math/rand/v2"
)

// Labels of a match.
const (
	matchNone    = 0  // background
	matchIgnored = -1 // between the thresholds
	matchObject  = 1
)

// matcher assigns boxes to objects by their overlap.
type matcher struct {
	low, high float32 // below low is background, from high on an object, between them ignored
	allowLow  bool    // whether the best boxes of an object match it below low
}

// match returns for each of n boxes the object with the largest overlap, the first of equal ones, and a label.
// quality[object][box] is an IoU. Without objects, all boxes are background of object 0.
//
// With allowLow every box with an object's best quality becomes matchObject, of the object with which it overlaps most,
// possibly another one; for an object without any overlap these are all boxes that do not overlap it.
func (m matcher) match(quality [][]float32, n int) (objects []int, labels []int) {
	objects, labels = make([]int, n), make([]int, n)
	if len(quality) == 0 {
		return objects, labels
	}
	for box := range n {
		best := quality[0][box]
		for object, row := range quality {
			if row[box] > best {
				best, objects[box] = row[box], object
			}
		}
		switch {
		case best >= m.high:
			labels[box] = matchObject
		case best >= m.low:
			labels[box] = matchIgnored
		}
	}
	if m.allowLow {
		for _, row := range quality {
			best := float32(0)
			for _, q := range row {
				best = max(best, q)
			}
			for box, q := range row {
				if q == best {
					labels[box] = matchObject
				}
			}
		}
	}
	return objects, labels
}

// overlaps returns the IoU of each object with each box, [object][box].
func overlaps(objects, boxes []Box) [][]float32 {
	quality := make([][]float32, len(objects))
	for i, object := range objects {
		quality[i] = make([]float32, len(boxes))
		for j, box := range boxes {
			quality[i][j] = boxIoU(object, box)
		}
	}
	return quality
}

// draw picks n of some indices.
type draw func(from []int, n int) []int

// permuted draws the first elements of permutations.
func permuted(r *rand.Rand) draw {
	return func(from []int, n int) (picked []int) {
		for _, i := range r.Perm(len(from))[:n] {
			picked = append(picked, from[i])
		}
		return picked
	}
}

// sampled draws up to n indices of labels, at most a share of objects, the rest background. Ignored labels are not
// drawn.
func sampled(labels []int, n int, share float64, pick draw) (objects, background []int) {
	var of [2][]int
	for i, label := range labels {
		if label != matchIgnored {
			of[label] = append(of[label], i)
		}
	}
	objects = pick(of[matchObject], min(len(of[matchObject]), int(float64(n)*share)))
	return objects, pick(of[matchNone], min(len(of[matchNone]), n-len(objects)))
}
