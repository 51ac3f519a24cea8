// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package dhvt implements the Dynamic Hybrid Vision Transformer of Lu et al., https://arxiv.org/abs/2210.05958: a ViT
// with convolutions for small datasets.
//
//	config, err := dhvt.FromViT(vit.Config{ImageRows: 32, ImageCols: 32, PatchSize: 4, Width: 192, Depth: 12, Heads: 4,
//		Classes: 100, Position: "wepe"})
//	logits := config.Logits(scope, images) // in a model function of GoMLX
//
// The network:
//
//	images [batch, rows, cols, channels]
//	  -> sequential overlapping patch embedding, SOPE: 3×3 convolutions of stride 2   [batch, N, width]
//	  -> class token                                                                [batch, 1+N, width]
//	  -> position encoding, none in the original                                    [batch, 1+N, width]
//	  -> Depth blocks: head-interacted attention, HI-MHSA, then DAFF                [batch, 1+N, width]
//	  -> LayerNorm, class token, dense head                                         [batch, Classes]
//
// In HI-MHSA every head contributes a token computed from the mean of all tokens; the attention outputs of these head
// tokens are added to the class token. DAFF convolves the grid of patch tokens, and their mean gates the class token.
// The original has no position encoding, because the padding of its convolutions distinguishes positions; the WePE
// release adds WePE.
//
// Package finetune trains it with the recipes dhvt-300 and release-dhvt-300.
//
// The variables below the scope, with d the width, h the heads, m the MLP dimension and conv_i of 3·3·in·out weights:
//
//	patch/pre_affine, patch/post_affine     gain, offset         [channels], [d]
//	patch/conv_0, conv_1, …                 weights              [3, 3, in, out]
//	patch/conv_0/norm, …                    gain, offset, mean, variance [out]
//	class                                                        [1, d]
//	position/…                                                   see packages vit and wepe
//	block_00/norm1, norm2                   gain, offset         [d]
//	block_00/attention/query, key, value, output  weights, biases  [d, d], [d]
//	block_00/attention/head_tokens          weights, biases      [d/h, d], [d]
//	block_00/attention/head_tokens          embedding            [h, d]
//	block_00/attention/head_tokens/norm     gain, offset         [d/h]
//	block_00/mlp/hidden, output             weights, biases      [d, m], [m] and [m, d], [d]
//	block_00/mlp/depthwise                  weights, biases      [3, 3, m], [m]
//	block_00/mlp/hidden/norm, depthwise/norm, output/norm  gain, offset, mean, variance  [m], [m], [d]
//	block_00/mlp/squeeze, excite            weights, biases      [d, d/4], [d/4] and [d/4, d], [d]
//	norm                                    gain, offset         [d]
//	head                                    weights, biases      [d, Classes], [Classes]
//
// The mean and variance of a batch normalization are running statistics, not trained: a training graph (see
// model.Store.SetTraining) normalizes by its batch and updates them with momentum 0.1; any other graph normalizes by
// them. All computation is float32.
//
// The same graph trains on the go, xla and onnx backends: convolutions are written as Gather and products, because onnx
// has no gradient of a strided convolution and GoMLX v0.28.2 computes the gradient of a depthwise one channel by
// channel.
package dhvt

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// watch receives intermediate values, sequences as [tokens, batch, channels], to compare them with other
// implementations. The stages are named as the modules of the original.
type watch func(stage string, x *Node)

// Logits builds the model in scope and returns its class logits, float32 [batch, classes]. Images are normalized
// float32 [batch, ImageRows, ImageCols, Channels].
func (c Config) Logits(scope *model.Scope, images *Node) *Node {
	c = c.resolved()
	return c.network(scope, images, c.positions(scope, images.Graph()), func(string, *Node) {})
}

// positions returns the vectors of Config.Position, float32 [1+Rows·Cols, width], the class token's first; nil for
// none.
func (c Config) positions(scope *model.Scope, g *Graph) *Node {
	if encoder, ok := position.As[position.Adder](c.Encoder(scope)); ok {
		return encoder.Encode(g)
	}
	return nil
}

// network is the model with the given vectors added to its tokens.
func (c Config) network(scope *model.Scope, images, positions *Node, see watch) *Node {
	init := c.initScheme()
	g, batch := images.Graph(), images.Shape().Dimensions[0]

	// Tokens are the first axis here, [tokens, batch, width], so that selecting tokens selects rows; only the product of
	// queries and keys needs another order.
	x := c.sope(scope.In(vit.ScopePatch), images, see)                                // [N, batch, width]
	class := weight.Float32(scope, vit.VarClass, init.token, 1, c.Width).NodeValue(g) // [1, width]
	class = BroadcastToDims(Reshape(class, 1, 1, c.Width), 1, batch, c.Width)         // [1, batch, width]
	x = Concatenate([]*Node{class, x}, 0)                                             // [1+N, batch, width]
	if positions != nil {
		if d := positions.Shape().Dimensions; len(d) != 2 || d[0] != c.Tokens() || d[1] != c.Width {
			exceptions.Panicf("dhvt: positions are %s, want [%d, %d], one row per token", positions.Shape(), c.Tokens(),
				c.Width)
		}
		x = Add(x, Reshape(positions, c.Tokens(), 1, c.Width))
	}
	see("tokens_in", x)
	x = layers.DropoutStatic(scope, x, c.TokenDropout)
	for i := range c.Depth {
		x = c.block(scope.In(vit.ScopeBlock, i), x, i, func(stage string, x *Node) {
			see(fmt.Sprintf("blocks.%d.%s", i, stage), x)
		})
		see(fmt.Sprintf("blocks.%d", i), x)
	}
	x = weight.LayerNorm(scope.In("norm"), x, c.Epsilon)
	see("final_norm", x)
	pooled := Reshape(kernel.Crop(x, 0, 0, 1), batch, c.Width) // the class token
	return weight.Dense(scope.In(vit.ScopeHead), pooled, c.Classes, init.dense, weight.Constant(0))
}

// block is x += attention(norm(x)), then x += mlp(norm(x)) on tokens [1+N, batch, width].
func (c Config) block(scope *model.Scope, x *Node, index int, see watch) *Node {
	branch := func(y *Node) *Node { return weight.DropBranch(scope, y, 1, c.DropPath, index, c.Depth) }
	y := weight.LayerNorm(scope.In("norm1"), x, c.Epsilon)
	see("norm1", y)
	y = c.attention(scope.In("attention"), y, see)
	y = layers.DropoutStatic(scope, y, c.Dropout)
	x = Add(x, branch(y))

	y = weight.LayerNorm(scope.In("norm2"), x, c.Epsilon)
	see("norm2", y)
	y = c.daff(scope.In("mlp"), y, see)
	return Add(x, branch(y))
}
