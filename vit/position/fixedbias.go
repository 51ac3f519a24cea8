// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/additive"
)

// fixedBias is a bias without variables: a value for every head and offset of the key's patch from the query's or, with
// toKey, for every key. Pairs with a prefix token get 0. A graph stores the table of offsets, not of all pairs, which
// is as large as the scores.
type fixedBias struct {
	name     string
	c        Config
	layers   int                                                   // with their own values: one, or all blocks
	ofOffset func(layer, head int, offset additive.Offset) float64 // zero with toKey
	toKey    func(layer, head, patch int) float64                  // nil for none

	pairs *tensors.Tensor
	built []once // by layer
}

var _ Biaser = (*fixedBias)(nil)

// Name implements pos.Encoder.
func (b *fixedBias) Name() string { return b.name }

// Bias implements Biaser.
func (b *fixedBias) Bias(g *Graph, block int) *Node {
	if b.pairs == nil {
		b.pairs, b.built = additive.Pairs(b.c.Rows, b.c.Cols, b.c.Prefix), make([]once, b.layers)
	}
	layer := block % b.layers
	return b.built[layer].in(g, func() *Node { return b.ofLayer(g, layer) })
}

func (b *fixedBias) ofLayer(g *Graph, layer int) *Node {
	c, offsets := b.c, additive.Offsets(b.c.Rows, b.c.Cols)
	table := make([]float32, (len(offsets)+1)*c.Heads) // the last row, for pairs with a prefix token, stays 0
	for i, offset := range offsets {
		for head := range c.Heads {
			table[i*c.Heads+head] = float32(b.ofOffset(layer, head, offset))
		}
	}
	x := additive.Rows(Reshape(Const(g, table), -1, c.Heads), ConstCachedTensor(g, b.pairs))
	x = TransposeAllAxes(x, 2, 0, 1) // [heads, tokens, tokens]
	if b.toKey != nil {
		keys, isPatch := make([]float32, c.Heads*c.Tokens()), make([]float32, c.Tokens())
		for token := c.Prefix; token < c.Tokens(); token++ {
			isPatch[token] = 1
			for head := range c.Heads {
				keys[head*c.Tokens()+token] = float32(b.toKey(layer, head, token-c.Prefix))
			}
		}
		x = Add(x, Mul(Reshape(Const(g, isPatch), 1, -1, 1), Reshape(Const(g, keys), c.Heads, 1, -1)))
	}
	return x
}
