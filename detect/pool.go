// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// levels chooses the map from which a box is pooled: finer for smaller boxes. Maps are numbered by the binary logarithm
// of their stride, rounded: 2 has stride 4 (Lin et al., https://arxiv.org/abs/1612.03144, (1)):
//
//	canonicalLevel + floor(log2(√area/canonicalSize + 1e-8)), clamped to the finest and coarsest map
type levels struct {
	canonicalSize  float64 // pixels
	canonicalLevel int
	first, last    int
}

// levelNumber returns the number of a map from its stride.
func levelNumber(stride float64) int { return int(math.Round(math.Log2(stride))) }

// of returns the level for √area/canonicalSize, with the roundings of detectron2, in float32.
func (l levels) of(size float32) int {
	level := float32(l.canonicalLevel) + float32(math.Log2(float64(size+1e-8)))
	return min(max(int(math.Floor(max(float64(level), -1000))), l.first), l.last)
}

// from is the smallest √area/canonicalSize of a level above the first.
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

// weights returns masks [batch, n] per level: 1 for the level of boxes [batch, n, 4] and 0 for the others.
func (l levels) weights(boxes *Node) []*Node {
	left, top, right, bottom := sides(boxes)
	area := Squeeze(Mul(Sub(right, left), Sub(bottom, top)), -1) // [batch, n]
	size := DivScalar(Sqrt(MaxScalar(area, 0)), l.canonicalSize)
	var from []float32 // sizes at which the second level, the third, … starts
	for level := l.first + 1; level <= l.last; level++ {
		from = append(from, l.from(level))
	}
	g := size.Graph()
	level := ZerosLike(size)
	if len(from) > 0 {
		level = count(GreaterOrEqual(InsertAxes(size, -1), InsertAxes(Const(g, from), 0, 0)))
	}
	var weights []*Node
	for i := range len(from) + 1 {
		weights = append(weights, ConvertDType(Equal(level, Scalar(g, dtypes.Float32, i)), dtypes.Float32))
	}
	return weights
}

// count counts the true values of the last axis: [..., k] to [...], float32.
//
// It is a product, because XLA copies cheap operations into every kernel that reads their results, and a comparison of
// rounded numbers may differ between the copies: a box would be on two levels, or on none. Products are computed once.
func count(is *Node) *Node {
	d := is.Shape().Dimensions
	k := d[len(d)-1]
	rows := Reshape(ConvertDType(is, dtypes.Float32), -1, k)
	return Reshape(MatMul(rows, Ones(is.Graph(), shapes.Make(dtypes.Float32, k, 1))), d[:len(d)-1]...)
}

// pool pools boxes [batch, n, 4] from the maps of a pyramid, the finest first, each from the map of its level:
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
