// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
)

// layout is the positions of a batch: for its tokens, its attention and its pooling.
type layout interface {
	add(x *Node) *Node       // to the tokens [batch, tokens, width], before the first block
	around(block int) Around // the attention of a block

	// pool returns [batch, PooledWidth] from the tokens [batch, tokens, width]; the variables of poolMap are in the scope.
	pool(scope *model.Scope, x *Node) *Node
}

// oneGrid is the layout of images that fill the grid of the model.
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
	at := make([]int64, c.Tokens()) // rows; the last one, zero, is for tokens without a position
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
