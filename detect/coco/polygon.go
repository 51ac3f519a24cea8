// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// maxCoordinate bounds the coordinates of outlines, in pixels.
const maxCoordinate = 1 << 18

// ErrFar is the error for a polygon with a coordinate beyond the bound.
var ErrFar = errors.New("coordinate of a polygon")

// fromPolygon returns the mask of one polygon x0, y0, x1, y1, … (a last number without a partner is dropped).
//
// The outline is rounded to fifths of a pixel and traversed in steps of one fifth along its longer axis; where it
// crosses the middle of a column of pixels, the column is inside from the next row to the next crossing (even-odd). So
// parts thinner than a pixel may vanish, and parts beyond the image are cut. Source: rleFrPoly of maskApi.c.
func fromPolygon(xy []float64, height, width int) (RLE, error) {
	if err := checkSize(height, width); err != nil {
		return RLE{}, err
	}
	const fifths = 5
	points := make([][2]int, len(xy)/2)
	for i := range points {
		for k, v := range xy[2*i : 2*i+2] {
			if !(math.Abs(v) <= maxCoordinate) {
				return RLE{}, fmt.Errorf("%w: %g, want at most %d", ErrFar, v, maxCoordinate)
			}
			points[i][k] = int(float64(fifths*v) + 0.5) // towards zero, as in C
		}
	}
	w, h := float64(width), float64(height)
	var changes []int // column·height + row of the pixels where the inside starts or ends
	var last [2]int   // the step from here to the first point crosses the middle of no column in the image
	for i, point := range points {
		walk(point, points[(i+1)%len(points)], func(to [2]int) {
			from := last
			if last = to; to[0] == from[0] {
				return
			}
			x := float64(float64(min(from[0], to[0]))+0.5)/fifths - 0.5
			if x != math.Floor(x) || x < 0 || x > w-1 {
				return
			}
			y := math.Ceil(min(max(float64(float64(min(from[1], to[1]))+0.5)/fifths-0.5, 0), h))
			changes = append(changes, int(x)*height+int(y))
		})
	}
	changes = append(changes, height*width)
	slices.Sort(changes)
	r := RLE{Height: height, Width: width, Counts: []uint32{uint32(changes[0])}}
	for i := 1; i < len(changes); i++ {
		if changes[i] > changes[i-1] {
			r.Counts = append(r.Counts, uint32(changes[i]-changes[i-1]))
		} else if i++; i < len(changes) { // two changes of one pixel cancel
			r.Counts[len(r.Counts)-1] += uint32(changes[i] - changes[i-1])
		}
	}
	return r, nil
}

// walk visits the points of an edge at steps of one along its longer axis, both ends included. The points do not depend
// on the direction.
func walk(from, to [2]int, visit func([2]int)) {
	long := 0 // the axis
	if abs(to[0]-from[0]) < abs(to[1]-from[1]) {
		long = 1
	}
	start, steps := from, abs(to[long]-from[long])
	backwards := from[long] > to[long]
	if backwards {
		start, to = to, from
	}
	slope := 0.0
	if steps > 0 {
		slope = float64(to[1-long]-start[1-long]) / float64(steps)
	}
	for k := range steps + 1 {
		if backwards {
			k = steps - k
		}
		var p [2]int
		p[long] = start[long] + k
		p[1-long] = int(float64(start[1-long]) + float64(slope*float64(k)) + 0.5) // towards zero, as in C
		visit(p)
	}
}

func abs(n int) int { return max(n, -n) }

// polygon is the corners of a box.
func (b Box) polygon() []float64 {
	c := b.Corners()
	return []float64{c[0], c[1], c[0], c[3], c[2], c[3], c[2], c[1]}
}
