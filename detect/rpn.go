// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
)

// rpnDeltas are the weights of the RPN's boxes.
var rpnDeltas = deltas{1, 1, 1, 1}

// anchors are those of maps of the given sizes, rows and cols, one map after the other, and their number up to each.
func (r RPN) anchors(sizes [][2]int, strides []float64) (all []Box, ends []int) {
	for i, size := range sizes {
		cell := cellAnchors(r.Sizes[i:i+1], r.Ratios)
		all = append(all, gridAnchors(cell, size[0], size[1], strides[i], 0)...)
		ends = append(ends, len(all))
	}
	return all, ends
}

// head predicts for each anchor on maps [batch, ·, ·, channels] the logit of being an object, [batch, anchors], and the
// numbers that move it there, [batch, anchors, 4]. All maps share its weights.
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

// propose moves the anchors: [batch, anchors, 4].
func propose(by, anchors *Node) *Node {
	return rpnDeltas.decode(by, InsertAxes(anchors, 0), scaleClamp)
}

// losses of the sampled anchors, both over their greatest number whatever was sampled: cross-entropy of the logits, and
// the absolute errors of what moves those that are objects.
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

// pick picks from x [batch, n, …] those of indices [batch, m]: [batch, m, …].
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

// crossEntropy is that of labels 0 to 1 with the probabilities of logits: max(x, 0) - x·label + log(1 + exp(-|x|)).
func crossEntropy(logits, labels *Node) *Node {
	return Add(Sub(MaxScalar(logits, 0), Mul(logits, labels)), Log1P(Exp(Neg(Abs(logits)))))
}

// constant is boxes as a node [n, 4].
func constant(g *Graph, boxes []Box) *Node { return Const(g, boxTensor(boxes, len(boxes))) }

// boxTensor is boxes as [dims…, 4].
func boxTensor(boxes []Box, dims ...int) *tensors.Tensor {
	flat := make([]float32, 0, 4*len(boxes))
	for _, b := range boxes {
		flat = append(flat, b[:]...)
	}
	return tensors.FromFlatDataAndDimensions(flat, append(dims, 4)...)
}
