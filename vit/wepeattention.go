// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/wepe"
)

// wepeAttention adds the place to the queries and keys of every block, as DETR does with sines
// (https://arxiv.org/abs/2005.12872): with f the sphere features of a patch, [rows·cols, 12], and matrices A, B
// [12, width] of each block,
//
//	q_i += f_i·A,  k_j += f_j·B
//	scores = (q_i·k_j + q_i·(f_j·B) + (f_i·A)·k_j + f_i·ABᵀ·f_jᵀ)/√headDim
//
// head by head: content finds places, places find content, and ABᵀ is a bias of every pair of places. Values and the
// tokens themselves stay free of positions. Prefix tokens have no place: their queries and keys stay as they are.
type wepeAttention struct {
	c         Config
	field     *wepe.Field
	ofQueries []*model.Variable // [features, width], A of every block
	ofKeys    []*model.Variable
	features  once
}

// attentionStd is the spread of A and B at the start: at width 64 places then are as loud in queries and keys as the
// content is. Chosen there, on validation images.
const attentionStd = 0.1

func newWePEAttention(scope *model.Scope, c Config) Rotary {
	scope = scope.In("wepe_attention")
	w := &wepeAttention{c: c, field: wepe.New(scope, c.Rows(), c.Cols(), c.Width).OnHalfCell().FromScope().Field()}
	for block := range c.Depth {
		in := scope.At("block_%02d", block)
		w.ofQueries = append(w.ofQueries, weight.Float32(in, "query", weight.Normal(attentionStd), w.field.Len(), c.Width))
		w.ofKeys = append(w.ofKeys, weight.Float32(in, "key", weight.Normal(attentionStd), w.field.Len(), c.Width))
	}
	return &rotary{tokenwise: w}
}

// wepeAttentionParameters counts the default form: A and B of 12 features in each block and two scalars of the lattice.
func wepeAttentionParameters(c Config) int { return 2*12*c.Width*c.Depth + 2 }

func (w *wepeAttention) Name() string { return "wepe-attention" }

// rows returns f·A and f·B, [tokens, width] each.
func (w *wepeAttention) rows(g *Graph, block int) []*Node {
	features := w.features.in(g, func() *Node { return w.field.Features(g) }) // [rows·cols, features]
	rows := make([]*Node, 2)
	for i, weights := range []*model.Variable{w.ofQueries[block], w.ofKeys[block]} {
		rows[i] = MatMul(features, weights.NodeValue(g))
		if prefix := w.c.Prefix(); prefix > 0 {
			rows[i] = Concatenate([]*Node{Zeros(g, shapes.Make(dtypes.Float32, prefix, w.c.Width)), rows[i]}, 0)
		}
	}
	return rows
}

func (w *wepeAttention) turn(q, k *Node, rows []*Node) (*Node, *Node) {
	add := func(x, row *Node) *Node {
		d := x.Shape().Dimensions
		return ConvertDType(Add(ConvertDType(x, dtypes.Float32), Reshape(row, -1, d[1], d[2], d[3])), x.DType())
	}
	return add(q, rows[0]), add(k, rows[1])
}
