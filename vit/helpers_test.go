// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/vit/position"
)

// acting is what the encoder of a model does in one place, nil for nothing.
func acting[T any](c Config, scope *model.Scope) T {
	e, _ := position.As[T](c.Encoder(scope))
	return e
}

// turning is a model on 5×3 patches and a class token whose heads have 20 channels.
func turning(name string) Config {
	c := small(name, poolClass)
	c.Width, c.Heads = 60, 3
	return c
}

// alike returns a batch of equal tokens [batch, tokens, heads, headDim] with unequal channels.
func alike(c Config, batch, tokens int) *tensors.Tensor {
	flat := make([]float32, batch*tokens*c.Width)
	for i := range flat {
		flat[i] = float32(math.Sin(float64(5*(i%c.Width)+2))) + 0.3
	}
	return tensors.FromFlatDataAndDimensions(flat, batch, tokens, c.Heads, c.headDim())
}

// angles returns cosine and sine of the rotation of neighbouring channels in a block, [tokens, heads, headDim/2]: those
// of what becomes of the vectors (1, 0).
func angles(c Config, r position.Rotator, g *Graph, block, heads int) (cos, sin *Node) {
	n := c.headDim() / 2
	ones := make([]float32, c.Tokens()*c.Width)
	for i := range ones {
		ones[i] = float32((i + 1) % 2)
	}
	q := Reshape(Const(g, ones), 1, c.Tokens(), c.Heads, 2*n)
	q, _ = r.Block(block).EncodeQK(q, q, nil, 1)
	q = kernel.Crop(Reshape(q, c.Tokens(), c.Heads, n, 2), 1, 0, heads)
	of := func(i int) *Node { return Reshape(kernel.Crop(q, 3, i, i+1), c.Tokens(), heads, n) }
	return of(0), of(1)
}

// matrices returns the matrices that rotate each of the first blocks of size channels of a token, [tokens, blocks,
// size, size]: what becomes of the unit vectors is their columns.
func matrices(c Config, r position.Rotator, g *Graph, layer, size, blocks int) *Node {
	var columns []*Node
	for channel := range size {
		ones := make([]float32, c.Tokens()*c.Width)
		for at := channel; at < len(ones); at += size {
			ones[at] = 1
		}
		q := Reshape(Const(g, ones), 1, c.Tokens(), c.Heads, c.headDim())
		q, _ = r.Block(layer).EncodeQK(q, q, nil, 1)
		columns = append(columns, kernel.Crop(Reshape(q, c.Tokens(), -1, size), 1, 0, blocks))
	}
	return Stack(columns, -1)
}
