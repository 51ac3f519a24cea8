// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/additive"
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
	others    []Rotary // of other grids, whose places follow
	built     *Node    // the features, in the graph that was built last
}

var _ Rotary = (*wepeAttention)(nil)

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
	return w
}

// wepeAttentionParameters counts the default form: A and B of 12 features in each block and two scalars of the lattice.
func wepeAttentionParameters(c Config) int { return 2*12*c.Width*c.Depth + 2 }

// Name implements pos.Encoder.
func (w *wepeAttention) Name() string { return "wepe-attention" }

// Block implements Rotary.
func (w *wepeAttention) Block(i int) pos.QKEncoder { return &blockPlaces{w, i} }

// join implements joinable.
func (w *wepeAttention) join(others []Rotary) Rotary {
	joined := *w
	joined.others = others
	return &joined
}

// places returns what is added in one block, of one of ofQueries and ofKeys: float32 [tokens, width], those of the
// other grids below.
func (w *wepeAttention) places(g *Graph, weights *model.Variable) *Node {
	grids := []*wepeAttention{w}
	for _, other := range w.others {
		grids = append(grids, other.(*wepeAttention))
	}
	var rows []*Node
	for _, grid := range grids {
		if grid.built == nil || grid.built.Graph() != g {
			grid.built = grid.field.Features(g)
		}
		if prefix := grid.c.Prefix(); prefix > 0 {
			rows = append(rows, Zeros(g, shapes.Make(dtypes.Float32, prefix, grid.c.Width)))
		}
		rows = append(rows, MatMul(grid.built, weights.NodeValue(g)))
	}
	return Concatenate(rows, 0)
}

type blockPlaces struct {
	*wepeAttention
	block int
}

// EncodeQK implements pos.QKEncoder as blockRotation does. Sums are float32, whatever q and k are.
func (b *blockPlaces) EncodeQK(q, k, positionIndices *Node, seqAxis int) (*Node, *Node) {
	if q.Rank() != 4 || seqAxis != 1 && seqAxis != -3 {
		exceptions.Panicf("vit: %s takes queries [batch, tokens, heads, headDim], got %s with tokens along axis %d",
			b.Name(), q.Shape(), seqAxis)
	}
	place := func(x *Node, weights *model.Variable) *Node {
		rows := b.places(x.Graph(), weights) // [places, width]
		if positionIndices != nil {
			rows = additive.Rows(rows, positionIndices)
		}
		d := x.Shape().Dimensions
		rows = Reshape(rows, -1, d[1], d[2], d[3]) // [batch or 1, tokens, heads, headDim]
		return ConvertDType(Add(ConvertDType(x, dtypes.Float32), rows), x.DType())
	}
	return place(q, b.ofQueries[b.block]), place(k, b.ofKeys[b.block])
}
