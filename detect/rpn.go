// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
)

// rpnDeltas are the weights of the RPN's deltas.
var rpnDeltas = deltas{1, 1, 1, 1}

// anchors returns the anchors of maps of the given sizes, rows and cols, one map after the other, and their number up
// to each.
func (r RPN) anchors(sizes [][2]int, strides []float64) (all []rect, ends []int) {
	for i, size := range sizes {
		cell := cellAnchors(r.Sizes[i:i+1], r.Ratios)
		all = append(all, gridAnchors(cell, size[0], size[1], strides[i], 0)...)
		ends = append(ends, len(all))
	}
	return all, ends
}

// head predicts for each anchor on maps [batch, ·, ·, channels] the logit of being an object, [batch, anchors], and the
// deltas to its box, [batch, anchors, 4]. All maps share its weights.
func (r RPN) head(scope *model.Scope, maps []*Node) (logits, by *Node) {
	n := len(r.Ratios)
	small, zero := weight.Normal(0.01), weight.Constant(0)
	var ofLogits, ofDeltas []*Node
	for _, x := range maps {
		batch, channels := x.Shape().Dim(0), x.Shape().Dim(-1)
		for i := range r.Convs {
			x = activation.Relu(conv3x3(scope.At("conv_%d", i), x, channels, small, zero))
		}
		one := weight.Dense(scope.At("objects"), x, n, small, zero)   // [batch, ·, ·, n]
		four := weight.Dense(scope.At("deltas"), x, 4*n, small, zero) // [batch, ·, ·, n·4]
		ofLogits = append(ofLogits, Reshape(one, batch, -1))
		ofDeltas = append(ofDeltas, Reshape(four, batch, -1, 4))
	}
	return Concatenate(ofLogits, 1), Concatenate(ofDeltas, 1)
}

// losses are the losses of the sampled anchors, both divided by their maximum number: cross-entropy of the logits, and
// the absolute errors of the deltas of objects.
func (r RPN) losses(logits, by, anchors *Node, in inputs[*Node]) (class, box *Node) {
	batch := logits.Shape().Dim(0)
	labels := in.AnchorLabels                           // [batch, samples]
	object := MaxScalar(labels, 0)                      // 1 for objects
	sampled := MinScalar(AddScalar(labels, 1), 1)       // 0 for none
	number := 1 / (float64(r.Samples) * float64(batch)) // in the mean
	class = Mul(crossEntropy(pick(logits, in.Anchors), object), sampled)
	want := rpnDeltas.encode(additive.Rows(anchors, in.Anchors), in.AnchorBoxes)
	box = Mul(Abs(Sub(pick(by, in.Anchors), want)), InsertAxes(object, -1))
	return MulScalar(ReduceAllSum(class), number), MulScalar(ReduceAllSum(box), number)
}

// cellAnchors returns the boxes around the origin of one level: for each size, the root of the area, one per ratio of
// height to width.
func cellAnchors(sizes, ratios []float64) []rect {
	var cell []rect
	for _, size := range sizes {
		for _, ratio := range ratios {
			w := math.Sqrt(size * size / ratio)
			h := ratio * w
			cell = append(cell, rect{float32(-w / 2), float32(-h / 2), float32(w / 2), float32(h / 2)})
		}
	}
	return cell
}

// gridAnchors returns the boxes of a cell at every position of a map, row by row. Their centres are stride apart, the
// first is offset·stride from the corner of the image on both axes: 0 in ViTDet.
func gridAnchors(cell []rect, rows, cols int, stride, offset float64) []rect {
	var anchors []rect
	for row := range rows {
		for col := range cols {
			x, y := float32((float64(col)+offset)*stride), float32((float64(row)+offset)*stride)
			for _, b := range cell {
				anchors = append(anchors, rect{b[0] + x, b[1] + y, b[2] + x, b[3] + y})
			}
		}
	}
	return anchors
}

// proposals selects from the RPN's boxes in one image of a size in pixels: per level, whose boxes end at ends, the
// before highest logits; clipped to the image, without empty boxes and without those that overlap a better one of the
// same level; over all levels the after highest logits, in decreasing order.
//
// It runs on the host, between two programs: not all backends can sort.
func (r RPN) proposals(logits []float32, boxes []rect, ends []int, size [2]int, before, after int) ([]rect, []float32) {
	var all []detection // their class is the level
	begin := 0
	for level, end := range ends {
		for _, i := range byScore(logits[begin:end], before) {
			if box := boxes[begin+i].clip(size); !box.empty() && finite(logits[begin+i]) {
				all = append(all, detection{box, level, logits[begin+i]})
			}
		}
		begin = end
	}
	keep := nms(all, float32(r.NMSIoU), after)
	kept, logit := make([]rect, len(keep)), make([]float32, len(keep))
	for k, i := range keep {
		kept[k], logit[k] = all[i].box, all[i].score
	}
	return kept, logit
}
