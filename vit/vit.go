// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package vit is the Vision Transformer family, with the position encoding behind one switch.
//
//	images [batch, rows, cols, channels]
//	  -> patches, one dense layer        [batch, N, width]           N = Rows·Cols, row by row
//	  -> class token in front            [batch, prefix+N, width]
//	  -> position encoding               [batch, prefix+N, width]    Config.Position
//	  -> Depth pre-norm blocks           [batch, prefix+N, width]    or here, on queries and keys or the scores
//	  -> LayerNorm, pooling              [batch, width]
//	  -> dense head                      [batch, Classes]
//
// The architecture is that of Dosovitskiy et al., https://arxiv.org/abs/2010.11929, with exact GELU; its weights are
// those of timm, Hugging Face and Google's JAX release up to names and transposes.
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
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

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
	Pooled  *Node        // [batch, width] what the head sees
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

	x := c.patches(scope.In("patch"), images) // [batch, N, width]
	t.Patches = x
	if c.Prefix() > 0 {
		class := weight.Float32(scope, "class", init.class, c.Prefix(), c.Width).NodeValue(g) // [prefix, width]
		class = BroadcastPrefix(ConvertDType(class, x.DType()), images.Shape().Dimensions[0])
		x = Concatenate([]*Node{class, x}, 1) // [batch, prefix+N, width]
	}
	encoders := c.encoders(scope.In(positionScope))
	if encoders.Additive != nil {
		x = encoders.Additive.PreEncode(x, nil, 1)
	}
	t.Tokens = x
	x = layers.DropoutStatic(scope, x, c.Dropout)
	for i := range c.Depth {
		t.Blocks[i] = c.block(scope.In("block_%02d", i), x, encoders, i, attentionWeights)
		x = t.Blocks[i].Output
	}
	t.Encoded = weight.LayerNorm(scope.In("norm"), ConvertDType(x, dtypes.Float32), c.Epsilon)

	// Pooling is one product with a constant vector: it trains on every backend, where Slice does not.
	t.Pooled = Einsum("btd,t->bd", t.Encoded, Const(g, c.poolWeights()))                          // [batch, width]
	t.Logits = weight.Dense(scope.In("head"), t.Pooled, c.Classes, init.head, weight.Constant(0)) // [batch, classes]
	return t
}

// poolWeights returns what each token contributes to the pooled vector, [prefix+Rows·Cols].
func (c Config) poolWeights() []float32 {
	w := make([]float32, c.Tokens())
	if c.Pool == PoolClass {
		w[0] = 1
		return w
	}
	for i := range w {
		w[i] = 1 / float32(len(w))
	}
	return w
}
