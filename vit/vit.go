// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package vit is the Vision Transformer family, with the position encoding behind one switch.
//
//	images [batch, rows, cols, channels]
//	  -> patches, one dense layer        [batch, N, width]           N = Rows·Cols, row by row
//	  -> class token in front            [batch, prefix+N, width]    and registers, if configured
//	  -> position encoding               [batch, prefix+N, width]    Config.Position
//	  -> Depth pre-norm blocks           [batch, prefix+N, width]    or here, on queries and keys or the scores
//	  -> LayerNorm, pooling              [batch, width]
//	  -> dense head                      [batch, Classes]
//
// The architecture is that of Dosovitskiy et al., https://arxiv.org/abs/2010.11929, with exact GELU; its weights are
// those of timm, Hugging Face and Google's JAX release up to names and transposes. Options make DeiT-III, DINOv2 and
// DINOv3 of it: registers, LayerScale, SwiGLU, positions of patches alone, rotations in place of a table.
//
//	config, err := vit.Variant("Ti/16")
//	config.Position = "wepe"
//	...
//	logits := config.Logits(scope, images) // in a model function of GoMLX
//
// Weights are float32 variables. With DType "bfloat16" the tokens and the matrix products of the blocks are bfloat16;
// normalisation, softmax, the computation of the positions, pooling and the head stay in float32.
//
// Every graph here trains on the go, xla and onnx backends: no Slice, Split, Pad or strided convolution on the
// differentiable path.
package vit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
)

// Trace holds the intermediate values of one forward pass, for analyses and for parity with other implementations.
// Nodes nobody asks for cost nothing, but let Logits always be among the outputs: the go backend of compute v0.1.2
// panics on variables that come after the last output.
type Trace struct {
	Patches *Node        // [batch, Rows·Cols, width] after the patch projection and, if configured, its LayerNorm
	Tokens  *Node        // [batch, prefix+Rows·Cols, width] with positions, before dropout
	Blocks  []BlockTrace // one per block
	Encoded *Node        // [batch, prefix+Rows·Cols, width] after the final LayerNorm, float32 like all below
	Pooled  *Node        // [batch, PooledWidth] what the head sees
	Logits  *Node        // [batch, classes]
}

// Logits builds the model in scope and returns its class logits, float32 [batch, classes]. Images are normalised
// float32 [batch, ImageRows, ImageCols, Channels].
func (c Config) Logits(scope *model.Scope, images *Node) *Node {
	return c.Trace(scope, images, false).Logits
}

// Trace builds the model in scope and returns its intermediate values. Attention weights are kept on request: it costs
// the fused attention of backends that have one.
func (c Config) Trace(scope *model.Scope, images *Node, attentionWeights bool) *Trace {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		panic(err)
	}
	g := images.Graph()
	init := c.initScheme()
	t := &Trace{Blocks: make([]BlockTrace, c.Depth)}

	x := c.Patches(scope.In("patch"), images) // [batch, N, width]
	t.Patches = x
	var prefix []*Node
	token := func(name string, n int) {
		if n > 0 {
			rows := weight.Float32(scope, name, init.class, n, c.Width).NodeValue(g) // [n, width]
			prefix = append(prefix, BroadcastPrefix(ConvertDType(rows, x.DType()), images.Shape().Dimensions[0]))
		}
	}
	token("class", c.classTokens())
	token("registers", c.Registers)
	if len(prefix) > 0 {
		x = Concatenate(append(prefix, x), 1) // [batch, prefix+N, width]
	}
	encoders := c.encoders(scope.In(positionScope))
	x = c.withPositions(x, encoders.Additive)
	t.Tokens = x
	x = layers.DropoutStatic(scope, x, c.Dropout)
	for i := range c.Depth {
		t.Blocks[i] = c.Block(scope.In("block_%02d", i), x, encoders.around(i), i, attentionWeights)
		x = t.Blocks[i].Output
	}
	t.Encoded = weight.LayerNorm(scope.In("norm"), ConvertDType(x, dtypes.Float32), c.Epsilon)

	// Pooling is one product with a constant vector: it trains on every backend, where Slice does not.
	if c.Pool == PoolClassMean {
		both := Reshape(Const(g, c.poolWeights()), 2, c.Tokens())
		t.Pooled = Reshape(Einsum("btd,pt->bpd", t.Encoded, both), -1, c.PooledWidth()) // [batch, 2·width]
	} else {
		t.Pooled = Einsum("btd,t->bd", t.Encoded, Const(g, c.poolWeights())) // [batch, width]
	}
	t.Logits = weight.Dense(scope.In("head"), t.Pooled, c.Classes, init.head, weight.Constant(0)) // [batch, classes]
	return t
}

// withPositions adds a position encoding, if there is one, to the tokens [batch, prefix+N, width] that have a row in
// it.
func (c Config) withPositions(x *Node, encoding Additive) *Node {
	switch {
	case encoding == nil:
		return x
	case c.Places() == c.Tokens():
		return encoding.PreEncode(x, nil, 1)
	}
	g := x.Graph()
	rows := Concatenate([]*Node{encoding.Encode(g), Zeros(g, shapes.Make(dtypes.Float32, 1, c.Width))}, 0)
	places := make([]int64, c.Tokens()) // in rows, of which the last, zero, is for tokens without a place
	for token := range places {
		switch {
		case token >= c.Prefix():
			places[token] = int64(token - c.Prefix() + c.PlacedPrefix())
		case token >= c.PlacedPrefix():
			places[token] = int64(c.Places())
		}
	}
	return additive.PreEncode(additive.Rows(rows, Const(g, places)), x, nil, 1)
}

// poolWeights returns what each token contributes to the pooled vector, [prefix+Rows·Cols], twice for PoolClassMean.
func (c Config) poolWeights() []float32 {
	class, mean := make([]float32, c.Tokens()), make([]float32, c.Tokens())
	class[0] = 1
	for i := c.Prefix(); i < c.Tokens(); i++ {
		mean[i] = 1 / float32(c.Rows()*c.Cols())
	}
	switch c.Pool {
	case PoolClass:
		return class
	case PoolMean:
		return mean
	}
	return append(class, mean...)
}
