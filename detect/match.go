// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

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
			quality[i][j] = IoU(object, box)
		}
	}
	return quality
}
