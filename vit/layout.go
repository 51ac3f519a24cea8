// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/kernel"
)

// layout is the positions of a batch: for its tokens, its blocks and its pooling.
type layout interface {
	add(x *Node) *Node       // to the tokens [batch, tokens, width], before the first block
	around(block int) Around // the attention of a block

	// after adds to the tokens [batch, tokens, width] after a block.
	after(x *Node, block int) *Node

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

// after adds to the patches.
func (o oneGrid) after(x *Node, block int) *Node {
	if o.Conditional == nil {
		return x
	}
	return addAfter(o.c, o.Conditional, x, block, nil)
}

// addAfter adds what an encoding adds after a block to the patches of a model c, the first tokens of x [batch, tokens,
// width] behind the prefix, in the images where own, bool [batch], is true; in all if it is nil.
func addAfter(c Config, encoder Conditional, x *Node, block int, own *Node) *Node {
	d, begin, end := x.Shape().Dimensions, c.Prefix(), c.Tokens()
	y := encoder.After(Reshape(kernel.Crop(x, 1, begin, end), d[0], c.Rows(), c.Cols(), d[2]), block)
	if y == nil {
		return x
	}
	y = kernel.ZeroPad(Reshape(y, d[0], end-begin, d[2]), 1, begin, d[1]-end)
	if own != nil {
		y = Where(BroadcastToShape(Reshape(own, -1, 1, 1), shapes.Make(dtypes.Bool, d...)), y, ZerosLike(y))
	}
	return Add(x, y)
}
