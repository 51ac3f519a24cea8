// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/weight"
)

// lape is LaPE (https://arxiv.org/abs/2212.05262): one learned table, normalized by a LayerNorm of its own in every
// block, is added to the normalized tokens before the attention,
//
//	attention(LayerNorm(x) + LayerNorm_block(T))
//
// T is N(0, 0.02²) at the start. On another grid the rows of the patches are resampled as in grid2d.
type lape struct {
	c               Config
	prefix, patches *model.Variable // [prefix, width] or nil, [rows, cols, width]
	norms           []weight.Norm
	table           shared
}

var _ Repeater = (*lape)(nil)

const (
	lapeGrid    = trainedGrid("lape")
	lapeEpsilon = 1e-6
)

func newLaPE(scope *model.Scope, c Config) Encoder {
	rows, cols := lapeGrid.read(scope, c)
	scope = scope.In("lape")
	l := &lape{c: c, patches: weight.Float32(scope, "table", weight.Normal(0.02), rows, cols, c.Width)}
	if c.Prefix > 0 {
		l.prefix = weight.Float32(scope, "prefix", weight.Normal(0.02), c.Prefix, c.Width)
	}
	for block := range c.Depth {
		l.norms = append(l.norms, weight.NewNorm(scope.At("block_%02d", block), c.Width))
	}
	return l
}

// Name implements pos.Encoder.
func (l *lape) Name() string { return "lape" }

// Repeat implements Repeater.
func (l *lape) Repeat(g *Graph, block int) *Node {
	table := l.table.in(g, func() *Node {
		x := resample.Table(l.patches.NodeValue(g), resample.Linear, l.c.Rows, l.c.Cols) // [rows·cols, width]
		if l.prefix == nil {
			return x
		}
		return Concatenate([]*Node{l.prefix.NodeValue(g), x}, 0)
	})
	return l.norms[block].Apply(table, lapeEpsilon)
}
