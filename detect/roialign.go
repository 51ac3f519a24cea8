// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/kernel"
)

// roiAlign pools boxes from a map, each as rows × cols bins (He et al., https://arxiv.org/abs/1703.06870, with the
// half-pixel offset that detectron2 calls aligned): a bin is the mean of samples × samples points, each bilinear
// between four cells. A point more than a cell outside the centres of the border cells is 0; a nearer one has the
// border's value.
//
// A bilinear weight is a product of one along the rows and one along the columns, and so is the mean of a bin: with
// matrices Y [rows, map rows] and X [cols, map cols] of each box, its bins are Y·map·Xᵀ. All shapes are static, and the
// gradient by the map is also two products.
type roiAlign struct {
	rows, cols int
	stride     float64 // pixels of a cell of the map
	samples    int     // along each axis of a bin; 0: the number of map cells along it, rounded up
	most       int     // maximum of samples if that is 0
}

// atMost is the largest number of samples along a bin of boxes that are at most n map cells long.
func atMost(n float64, bins int) int { return int(math.Ceil(n / float64(bins))) }

// bins returns [batch·n, rows, cols, channels] for boxes [batch, n, 4], in pixels, on maps [batch, ·, ·, channels].
// Boxes whose weight [batch, n] is 0 get zeros; nil for all boxes.
func (r roiAlign) bins(maps, boxes, weight *Node) *Node {
	d, n := maps.Shape().Dimensions, boxes.Shape().Dim(1)
	left, top, right, bottom := sides(StopGradient(boxes))
	down := r.weights(top, bottom, r.rows, d[1])   // [batch, n, rows, map rows]
	across := r.weights(left, right, r.cols, d[2]) // [batch, n, cols, map cols]
	if weight != nil {
		down = Mul(down, InsertAxes(weight, -1, -1))
	}
	down = Reshape(down, d[0], n*r.rows, d[1])
	lines := kernel.Mix(down, Reshape(maps, d[0], d[1], d[2]*d[3])) // [batch, n·rows, map cols·channels]
	lines = Reshape(lines, d[0]*n, r.rows, d[2], d[3])
	across = BroadcastToDims(Reshape(across, d[0]*n, 1, r.cols, d[2]), d[0]*n, r.rows, r.cols, d[2])
	return kernel.Mix(across, lines)
}

// weights returns the weights of the cells of an axis, length long, in each bin between begin and end [batch, n, 1]:
// [batch, n, bins, length].
func (r roiAlign) weights(begin, end *Node, bins, length int) *Node {
	g := begin.Graph()
	axis := func(n, rank, at int) *Node { // 0, 1, … along one of rank axes
		dims := make([]int, rank)
		for i := range dims {
			dims[i] = 1
		}
		dims[at] = n
		return Iota(g, shapes.Make(dtypes.Float32, dims...), at)
	}
	scale := 1 / r.stride
	start := AddScalar(MulScalar(begin, scale), -0.5)
	bin := DivScalar(Sub(AddScalar(MulScalar(end, scale), -0.5), start), float64(bins)) // [batch, n, 1]
	most := r.samples
	samples := AddScalar(ZerosLike(bin), float64(most))
	if r.samples == 0 {
		most, samples = r.most, InsertAxes(count(GreaterThan(bin, axis(r.most, 3, 2))), -1) // rounded up
	}
	// points [batch, n, bins, most] are the centres of equal parts of a bin
	each := Div(InsertAxes(bin, -1), MaxScalar(InsertAxes(samples, -1), 1)) // [batch, n, 1, 1]
	points := InsertAxes(Add(start, Mul(axis(bins, 3, 2), bin)), -1)
	points = Add(points, Mul(AddScalar(axis(most, 4, 3), 0.5), each))
	inside := LogicalAnd(GreaterOrEqual(points, Scalar(g, dtypes.Float32, -1)),
		LessOrEqual(points, Scalar(g, dtypes.Float32, length)))
	inside = LogicalAnd(inside, LessThan(axis(most, 4, 3), InsertAxes(samples, -1)))
	points = InsertAxes(MinScalar(MaxScalar(points, 0), float64(length-1)), -1) // [batch, n, bins, most, 1]
	hat := MaxScalar(AddScalar(Neg(Abs(Sub(points, axis(length, 5, 4)))), 1), 0)
	hat = Mul(hat, InsertAxes(ConvertDType(inside, dtypes.Float32), -1))
	return StopGradient(Div(ReduceSum(hat, 3), MaxScalar(InsertAxes(samples, -1), 1)))
}

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
	level := ZerosLike(size)
	if len(from) > 0 {
		level = count(GreaterOrEqual(InsertAxes(size, -1), InsertAxes(Const(size.Graph(), from), 0, 0)))
	}
	weights := make([]*Node, len(from)+1)
	for i := range weights {
		weights[i] = ConvertDType(Equal(level, Scalar(size.Graph(), dtypes.Float32, i)), dtypes.Float32)
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
		if bins := align.bins(maps[i], boxes, weight); i == 0 {
			sum = bins
		} else {
			sum = Add(sum, bins)
		}
	}
	return sum
}
