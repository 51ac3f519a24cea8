// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/weight"
)

// relativeTable is the bias of BEiT (https://arxiv.org/abs/2106.08254): in every block a learned score for each head
// and offset of the key's patch from the query's, and one each for pairs of a prefix query and a patch key, of a patch
// query and a prefix key, and of two prefix tokens. On another grid the tables are resampled bilinearly, as in
// transformers' Beit.
type relativeTable struct {
	c          Config
	rows, cols int // of the grid of the tables
	tables     ofBlocks
	pairs      *tensors.Tensor
}

const relativeGrid = trainedGrid("relative_table")

func newRelativeTable(scope *model.Scope, c Config) Encoder {
	rows, cols := relativeGrid.read(scope, c)
	tables := perBlock(scope.In("relative_table"), c, "scores", weight.Constant(0), relativeTableRows(rows, cols),
		c.Heads)
	return &relativeTable{c: c, rows: rows, cols: cols, tables: tables}
}

// relativeTableRows counts the offsets of a grid and the three kinds of pairs with prefix tokens.
func relativeTableRows(rows, cols int) int { return (2*rows-1)*(2*cols-1) + 3 }

func (r *relativeTable) Name() string { return "relative-table" }

// Bias implements Biaser.
func (r *relativeTable) Bias(g *Graph, block int) *Node {
	c, table := r.c, r.tables.value(g, block) // [offsets + 3, heads]
	if r.rows != c.Rows || r.cols != c.Cols {
		table = r.resampled(table)
	}
	if r.pairs == nil {
		r.pairs = r.allPairs()
	}
	scores := additive.Rows(table, ConstCachedTensor(g, r.pairs)) // [tokens, tokens, heads]
	return TransposeAllAxes(scores, 2, 0, 1)
}

// resampled resamples a table to the grid of the model.
func (r *relativeTable) resampled(table *Node) *Node {
	n := table.Shape().Dim(0)
	x := Reshape(kernel.Crop(table, 0, 0, n-3), 2*r.rows-1, 2*r.cols-1, r.c.Heads)
	x = resample.Table(x, resample.Bilinear, 2*r.c.Rows-1, 2*r.c.Cols-1)
	return Concatenate([]*Node{x, kernel.Crop(table, 0, n-3, n)}, 0)
}

// allPairs returns the row of the table for each pair of tokens, int64 [query, key]. Offsets run from key to query,
// opposite to additive.Pairs.
func (r *relativeTable) allPairs() *tensors.Tensor {
	c := r.c
	tokens, offsets := c.Tokens(), int64(relativeTableRows(c.Rows, c.Cols)-3)
	pairs := additive.Pairs(c.Rows, c.Cols, c.Prefix)
	pairs.MustMutableFlatData(func(flat any) {
		rows := flat.([]int64)
		for i, row := range rows {
			switch query, key := i/tokens, i%tokens; {
			case max(query, key) < c.Prefix:
				rows[i] = offsets + 2
			case key < c.Prefix:
				rows[i] = offsets + 1
			case query < c.Prefix:
				rows[i] = offsets
			default:
				rows[i] = offsets - 1 - row
			}
		}
	})
	return pairs
}
