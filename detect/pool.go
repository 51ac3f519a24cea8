// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// levels chooses the map that a box is read from: the finer, the smaller it is. Maps are numbered by the binary
// logarithm of their stride, rounded, so 2 is that of stride 4 (Lin et al., https://arxiv.org/abs/1612.03144, (1)):
//
//	canonicalLevel + floor(log2(√area/canonicalSize + 1e-8)), that of the finest or coarsest map beyond them
type levels struct {
	canonicalSize  float64 // pixels
	canonicalLevel int
	first, last    int
}

// levelNumber is that of a map by its stride.
func levelNumber(stride float64) int { return int(math.Round(math.Log2(stride))) }

// of is the level by √area/canonicalSize, with the roundings of detectron2, whose numbers are float32.
func (l levels) of(size float32) int {
	level := float32(l.canonicalLevel) + float32(math.Log2(float64(size+1e-8)))
	return min(max(int(math.Floor(max(float64(level), -1000))), l.first), l.last)
}

// from is the least √area/canonicalSize of a level above the first.
func (l levels) from(level int) float32 {
	x := float32(math.Exp2(float64(level - l.canonicalLevel)))
	for l.of(x) < level {
		x = math.Nextafter32(x, math.MaxFloat32)
	}
	for below := math.Nextafter32(x, 0); l.of(below) >= level; below = math.Nextafter32(x, 0) {
		x = below
	}
	return x
}

// weights are 1 for the level of boxes [batch, n, 4] and 0 for all others, one [batch, n] for each.
func (l levels) weights(boxes *Node) []*Node {
	left, top, right, bottom := sides(boxes)
	area := Squeeze(Mul(Sub(right, left), Sub(bottom, top)), -1) // [batch, n]
	size := DivScalar(Sqrt(MaxScalar(area, 0)), l.canonicalSize)
	above := OnesLike(size) // 1 where the level is at least this one
	var weights []*Node
	for level := l.first; level < l.last; level++ {
		next := ConvertDType(GreaterOrEqual(size, Scalar(size.Graph(), dtypes.Float32, l.from(level+1))), dtypes.Float32)
		weights = append(weights, Sub(above, next))
		above = next
	}
	return append(weights, above)
}

// pool reads boxes [batch, n, 4] out of the maps of a pyramid, the finest first, each from that of its level:
// [batch·n, size, size, channels].
func (l levels) pool(maps []*Node, strides []float64, boxes *Node, size, samples int) *Node {
	var sum *Node
	for i, weight := range l.weights(boxes) {
		d := maps[i].Shape().Dimensions
		align := roiAlign{rows: size, cols: size, stride: strides[i], samples: samples,
			most: atMost(float64(max(d[1], d[2])), size)} // boxes are clipped
		bins := align.bins(maps[i], boxes, weight)
		if sum == nil {
			sum = bins
		} else {
			sum = Add(sum, bins)
		}
	}
	return sum
}
