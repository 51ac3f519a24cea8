// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
)

// rpnDeltas are the weights of the RPN's deltas.
var rpnDeltas = deltas{1, 1, 1, 1}

// anchors returns the anchors of maps of the given sizes, rows and cols, one map after the other, and their number up
// to each.
func (r RPN) anchors(sizes [][2]int, strides []float64) (all []Box, ends []int) {
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

// propose applies the deltas to the anchors: [batch, anchors, 4].
func propose(by, anchors *Node) *Node {
	return rpnDeltas.decode(by, InsertAxes(anchors, 0))
}

// losses are the losses of the sampled anchors, both divided by their maximum number: cross-entropy of the logits, and
// the absolute errors of the deltas of objects.
func (r RPN) losses(logits, by, anchors *Node, in Inputs[*Node]) (class, box *Node) {
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

// pick selects from x [batch, n, …] the entries of indices [batch, m]: [batch, m, …].
func pick(x, indices *Node) *Node {
	d := x.Shape().Dimensions
	first := make([]int64, d[0]) // of each image
	for i := range first {
		first[i] = int64(i * d[1])
	}
	indices = Add(indices, InsertAxes(Const(x.Graph(), first), -1))
	rows := additive.Rows(Reshape(x, append([]int{d[0] * d[1], -1}, d[2:]...)...), indices)
	return Reshape(rows, append([]int{d[0], indices.Shape().Dim(1)}, d[2:]...)...)
}

// crossEntropy is the binary cross-entropy of labels 0 to 1 and logits: max(x, 0) - x·label + log(1 + exp(-|x|)).
func crossEntropy(logits, labels *Node) *Node {
	return Add(Sub(MaxScalar(logits, 0), Mul(logits, labels)), Log1P(Exp(Neg(Abs(logits)))))
}

// constant returns boxes as a node [n, 4].
func constant(g *Graph, boxes []Box) *Node { return Const(g, boxTensor(boxes, len(boxes))) }

// boxTensor returns boxes as [dims…, 4].
func boxTensor(boxes []Box, dims ...int) *tensors.Tensor {
	var flat []float32
	for _, b := range boxes {
		flat = append(flat, b[:]...)
	}
	return tensors.FromFlatDataAndDimensions(flat, append(dims, 4)...)
}

// cellAnchors returns the boxes around the origin of one level: for each size, the root of the area, one per ratio of
// height to width.
func cellAnchors(sizes, ratios []float64) []Box {
	var cell []Box
	for _, size := range sizes {
		for _, ratio := range ratios {
			w := math.Sqrt(size * size / ratio)
			h := ratio * w
			cell = append(cell, Box{float32(-w / 2), float32(-h / 2), float32(w / 2), float32(h / 2)})
		}
	}
	return cell
}

// gridAnchors returns the boxes of a cell at every position of a map, row by row. Their centres are stride apart, the
// first is offset·stride from the corner of the image on both axes: 0 in ViTDet.
func gridAnchors(cell []Box, rows, cols int, stride, offset float64) []Box {
	var anchors []Box
	for row := range rows {
		for col := range cols {
			x, y := float32((float64(col)+offset)*stride), float32((float64(row)+offset)*stride)
			for _, b := range cell {
				anchors = append(anchors, Box{b[0] + x, b[1] + y, b[2] + x, b[3] + y})
			}
		}
	}
	return anchors
}

// proposals selects from the RPN's boxes in one image of rows × cols pixels: per level, whose boxes end at ends, the
// before highest logits; clipped to the image, without empty boxes and without those that overlap a better one of the
// same level; over all levels the after highest logits, in decreasing order.
//
// It runs on the host, between two programs: not all backends can sort.
func (r RPN) proposals(logits []float32, boxes []Box, ends []int, rows, cols, before, after int) ([]Box, []float32) {
	var candidates []Box
	var scores []float32
	var level []int
	begin := 0
	for l, end := range ends {
		for _, i := range byScore(logits[begin:end], before) {
			box := boxes[begin+i].clip(rows, cols)
			if box.Empty() || !finite(logits[begin+i]) {
				continue
			}
			candidates, scores, level = append(candidates, box), append(scores, logits[begin+i]), append(level, l)
		}
		begin = end
	}
	keep := nms(candidates, scores, level, float32(r.Overlap), after)
	kept, logit := make([]Box, len(keep)), make([]float32, len(keep))
	for k, i := range keep {
		kept[k], logit[k] = candidates[i], scores[i]
	}
	return kept, logit
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }
