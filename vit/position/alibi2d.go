// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
)

// fixedBias is a bias without variables: a value for every head and offset of the key's patch from the query's. Pairs
// with a prefix token get 0. A graph stores the table of offsets, not of all pairs, which is as large as the scores.
type fixedBias struct {
	name     string
	c        Config
	perBlock bool // the blocks have their own values
	ofOffset func(layer, head int, offset additive.Offset) float64

	pairs *tensors.Tensor
	built []shared[*Node] // by layer
}

func (b *fixedBias) Name() string { return b.name }

// Bias implements Biaser.
func (b *fixedBias) Bias(g *Graph, block int) *Node {
	c := b.c
	if b.pairs == nil {
		b.pairs, b.built = additive.Pairs(c.Rows, c.Cols, c.Prefix), make([]shared[*Node], c.Depth)
	}
	layer := 0
	if b.perBlock {
		inDepth(block, c.Depth)
		layer = block
	}
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

// newALiBi2D is ALiBi in two dimensions, as in CROMA (https://arxiv.org/abs/2311.00566): head h adds -m_h·‖Δ‖ to the
// score of two patches, the slope of the head times the Euclidean distance of their centres in patches, the same in
// every block. Pairs with the class token get 0 (CROMA has no class token).
//
// On another grid distances are still counted in patches: pairs farther apart than in training are penalized by the
// same slopes.
func newALiBi2D(_ *model.Scope, c Config) Encoder {
	slopes := alibiSlopes(c.Heads)
	return &fixedBias{name: "alibi2d", c: c, ofOffset: func(_, head int, o additive.Offset) float64 {
		return -slopes[head] * math.Hypot(float64(o.Rows), float64(o.Cols))
	}}
}

// alibiSlopes returns ALiBi's slope of each of n heads (https://arxiv.org/abs/2108.12409): 2^(-8i/n), i = 1 … n, if n
// is a power of two; otherwise the slopes for the power of two below, then every second slope for the power above.
func alibiSlopes(n int) []float64 {
	below := 1
	for 2*below <= n {
		below *= 2
	}
	slopes := make([]float64, n)
	for i := range slopes {
		slopes[i] = math.Exp2(-8 * float64(i+1) / float64(below))
		if i >= below {
			slopes[i] = math.Exp2(-4 * float64(2*(i-below)+1) / float64(below))
		}
	}
	return slopes
}
