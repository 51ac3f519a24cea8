// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/additive"
)

// fixedBias is a bias without variables: a value for every head and offset of the key's patch from the query's. Pairs
// with a prefix token get 0. A graph stores the table of offsets, not of all pairs, which is as large as the scores.
type fixedBias struct {
	name     string
	c        Config
	layers   int // with their own values: one, or all blocks
	ofOffset func(layer, head int, offset additive.Offset) float64

	pairs *tensors.Tensor
	built []shared // by layer
}

var _ Biaser = (*fixedBias)(nil)

// Name implements pos.Encoder.
func (b *fixedBias) Name() string { return b.name }

// Bias implements Biaser.
func (b *fixedBias) Bias(g *Graph, block int) *Node {
	c := b.c
	if b.pairs == nil {
		b.pairs, b.built = additive.Pairs(c.Rows, c.Cols, c.Prefix), make([]shared, b.layers)
	}
	layer := block % b.layers
	return b.built[layer].in(g, func() *Node {
		offsets := additive.Offsets(c.Rows, c.Cols)
		table := make([]float32, (len(offsets)+1)*c.Heads) // the last row, for pairs with a prefix token, stays 0
		for i, offset := range offsets {
			for head := range c.Heads {
				table[i*c.Heads+head] = float32(b.ofOffset(layer, head, offset))
			}
		}
		x := additive.Rows(Reshape(Const(g, table), -1, c.Heads), ConstCachedTensor(g, b.pairs))
		return TransposeAllAxes(x, 2, 0, 1) // [heads, tokens, tokens]
	})
}
