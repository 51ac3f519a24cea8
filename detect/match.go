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

// matcher assigns boxes to objects by how well they overlap.
type matcher struct {
	low, high float32 // below low is background, from high on an object, between is ignored
	allowLow  bool    // whether an object's best boxes are its, however low
}

// match returns for each of n boxes the object that it overlaps best, the first of equal ones, and a label.
// quality[object][box] is an IoU. Where no object is, all are background of object 0.
//
// With allowLow every box that ties for an object's best quality becomes matchObject, of the object that itself
// overlaps best, which may be another one; of an object that overlaps nothing these are all that do not overlap it.
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

// overlaps are the IoU of each object with each box, [object][box].
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

// draw picks n of some indices, all of them where there are no more.
type draw func(from []int, n int) []int

// permuted draws by the beginnings of permutations.
func permuted(r *rand.Rand) draw {
	return func(from []int, n int) []int {
		picked := make([]int, 0, min(n, len(from)))
		for _, i := range r.Perm(len(from))[:min(n, len(from))] {
			picked = append(picked, from[i])
		}
		return picked
	}
}

// sampled draws n indices of labels, of which at most a share is of objects, the rest of background; less where there
// are less. What is ignored is neither.
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
