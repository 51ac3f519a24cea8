// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/weight"
)

// lape is LaPE (https://arxiv.org/abs/2212.05262): a learned table goes from block to block through a LayerNorm of its
// own in each, and is added to the normalized tokens before the attention,
//
//	T_l = LayerNorm_l(T_{l-1}),   attention(LayerNorm(x) + T_l)
//
// T_{-1} is N(0, 0.02²) at the start, with a row for each token in front of the patches that has a position. On another
// grid the rows of the patches are resampled as in grid2d.
type lape struct {
	c      Config
	first  func(*Graph) *Node // T_{-1}
	norms  []weight.Norm
	tables []shared[*Node] // T_l
}

const (
	lapeGrid    = trainedGrid("lape")
	lapeEpsilon = 1e-6
)

func newLaPE(scope *model.Scope, c Config) Encoder {
	rows, cols := lapeGrid.read(scope, c)
	scope = scope.In("lape")
	l := &lape{c: c, first: gridTable(scope, c, rows, cols, resample.Bilinear), tables: make([]shared[*Node], c.Depth)}
	for block := range c.Depth {
		l.norms = append(l.norms, weight.NewNorm(scope.At("block_%02d", block), c.Width))
	}
	return l
}

func (l *lape) Name() string { return "lape" }

// Repeat implements Repeater.
func (l *lape) Repeat(g *Graph, block int) *Node {
	inDepth(block, l.c.Depth)
	return l.c.AllTokens(l.table(g, block))
}

// table returns T of a block, [Positions, width].
func (l *lape) table(g *Graph, block int) *Node {
	if block < 0 {
		return l.first(g)
	}
	return l.tables[block].in(g, func() *Node { return l.norms[block].Apply(l.table(g, block-1), lapeEpsilon) })
}
