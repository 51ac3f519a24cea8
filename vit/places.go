// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/additive"
)

// places is what the network does with where the tokens of a batch are.
type places interface {
	add(x *Node) *Node       // to the tokens [batch, tokens, width], before the first block
	around(block int) Around // the attention of a block
	pool(x *Node) *Node      // the tokens [batch, tokens, width] into [batch, PooledWidth]
}

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
	case c.Places() == c.Tokens():
		return o.Additive.PreEncode(x, nil, 1)
	}
	g := x.Graph()
	rows := Concatenate([]*Node{o.Additive.Encode(g), Zeros(g, shapes.Make(dtypes.Float32, 1, c.Width))}, 0)
	at := make([]int64, c.Tokens()) // in rows, of which the last, zero, is for tokens without a place
	for token := range at {
		switch {
		case token >= c.Prefix():
			at[token] = int64(token - c.Prefix() + c.PlacedPrefix())
		case token >= c.PlacedPrefix():
			at[token] = int64(c.Places())
		}
	}
	return additive.PreEncode(additive.Rows(rows, Const(g, at)), x, nil, 1)
}

// pool is one product with a constant vector: it trains on every backend, where Slice does not.
func (o oneGrid) pool(x *Node) *Node {
	c, weights := o.c, Const(x.Graph(), o.c.poolWeights(o.c.Rows()*o.c.Cols(), o.c.Tokens()))
	if c.Pool == PoolClassMean {
		return Reshape(Einsum("btd,pt->bpd", x, Reshape(weights, 2, c.Tokens())), -1, c.PooledWidth()) // [batch, 2·width]
	}
	return Einsum("btd,t->bd", x, weights) // [batch, width]
}

// poolWeights returns what each of so many tokens contributes to the pooled vector, [tokens], twice for PoolClassMean,
// where the prefix is followed by so many patches.
func (c Config) poolWeights(patches, tokens int) []float32 {
	class, mean := make([]float32, tokens), make([]float32, tokens)
	class[0] = 1
	for i := range patches {
		mean[c.Prefix()+i] = 1 / float32(patches)
	}
	switch c.Pool {
	case PoolClass:
		return class
	case PoolMean:
		return mean
	}
	return append(class, mean...)
}
