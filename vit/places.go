// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/additive"
)

// places is what the network does with where the tokens of a batch are.
type places interface {
	add(x *Node) *Node       // to the tokens [batch, tokens, width], before the first block
	around(block int) Around // the attention of a block
	pool(x *Node) *Node      // the tokens [batch, tokens, width] into [batch, PooledWidth]; not of PoolMap
	unpooled(g *Graph) *Node // hiddenScore for tokens that PoolMap leaves out, else 0: [batch or 1, 1, 1, tokens]
}

// hiddenScore is added to the scores of tokens that attention leaves out: their softmax is 0 exactly.
const hiddenScore = -1e9

// oneGrid are the places of images that fill the grid of the model.
type oneGrid struct {
	c Config
	Encoders
}

// add adds to the tokens that have a row in the encoding.
func (o oneGrid) add(x *Node) *Node {
	c := o.c
	switch {
	case o.Additive == nil:
		return x
	case c.Positions() == c.Tokens():
		return o.Additive.PreEncode(x, nil, 1)
	}
	g := x.Graph()
	rows := Concatenate([]*Node{o.Additive.Encode(g), Zeros(g, shapes.Make(dtypes.Float32, 1, c.Width))}, 0)
	at := make([]int64, c.Tokens()) // in rows, of which the last, zero, is for tokens without a place
	for token := range at {
		switch {
		case token >= c.Prefix():
			at[token] = int64(token - c.Prefix() + c.PrefixPositions())
		case token >= c.PrefixPositions():
			at[token] = int64(c.Positions())
		}
	}
	return additive.PreEncode(additive.Rows(rows, Const(g, at)), x, nil, 1)
}

// pool is one product with a constant vector: it trains on every backend, where Slice does not.
func (o oneGrid) pool(x *Node) *Node {
	c, weights := o.c, Const(x.Graph(), o.c.poolWeights(o.c.Rows()*o.c.Cols(), o.c.Tokens()))
	if c.PooledWidth() > c.Width {
		return Reshape(Einsum("btd,pt->bpd", x, Reshape(weights, 2, c.Tokens())), -1, c.PooledWidth()) // [batch, 2·width]
	}
	return Einsum("btd,t->bd", x, weights) // [batch, width]
}

func (o oneGrid) unpooled(g *Graph) *Node {
	if o.c.PoolPrefix || o.c.Prefix() == 0 {
		return nil
	}
	return Const(g, o.c.hiddenPrefix(o.c.Tokens()))
}

// hiddenPrefix hides the prefix from PoolMap: [1, 1, 1, tokens].
func (c Config) hiddenPrefix(tokens int) *tensors.Tensor {
	scores := make([]float32, tokens)
	for i := range c.Prefix() {
		scores[i] = hiddenScore
	}
	return tensors.FromFlatDataAndDimensions(scores, 1, 1, 1, tokens)
}

// poolWeights returns what each of so many tokens contributes to the pooled vector, [tokens], where the prefix is
// followed by so many patches; one after the other where the pool takes two vectors.
func (c Config) poolWeights(patches, tokens int) []float32 {
	class, register, mean := make([]float32, tokens), make([]float32, tokens), make([]float32, tokens)
	class[0], register[min(1, tokens-1)] = 1, 1
	from, to := c.Prefix(), c.Prefix()+patches
	if c.PoolPrefix {
		from = 0
	}
	for i := from; i < to; i++ {
		mean[i] = 1 / float32(to-from)
	}
	switch c.Pool {
	case PoolClass:
		return class
	case PoolClassRegister:
		return append(class, register...)
	case PoolClassMean:
		return append(class, mean...)
	}
	return mean
}
