// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package vit implements Vision Transformers with a choice of position encodings.
//
//	config, err := vit.Variant("Ti/16")
//	config.Position = "wepe-sphere"
//	logits := config.Logits(scope, images) // in a model function of GoMLX
//
// The network:
//
//	images [batch, rows, cols, channels]
//	  -> patches, one dense layer        [batch, N, width]           N = Rows·Cols, row by row
//	  -> class token, registers          [batch, prefix+N, width]    if configured
//	  -> additive position encoding      [batch, prefix+N, width]    Config.Position
//	  -> Depth pre-norm blocks           [batch, prefix+N, width]    the other encodings act here
//	  -> LayerNorm, pooling              [batch, width]              or pooling, LayerNorm
//	  -> dense head                      [batch, Classes]
//
// The architecture is the ViT of Dosovitskiy et al., https://arxiv.org/abs/2010.11929, with exact GELU. Options of
// [Config] give DeiT, DeiT-III, BEiT, DINOv2, DINOv3, EVA-02 and the image encoders of CLIP and SigLIP. Weights equal
// the weights of timm, Hugging Face and Google's JAX release up to names and transposes.
//
// Package position has the encodings; [position.Register] adds one, and package vittest tests it. [NaFlexImages] is a
// batch of images with different aspect ratios.
//
// Weights are float32 variables. With DType "bfloat16" the tokens and matrix products of the blocks are bfloat16;
// normalization, softmax, positions, pooling and head stay in float32.
//
// Every graph trains on the go, xla and onnx backends: there is no Slice, Split, Pad or strided convolution on the
// differentiable path.
package vit

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit/position"
)

// Trace holds the intermediate values of one forward pass, for analyses and for comparison with other implementations.
// Only requested nodes are computed. Always request Logits: the go backend of compute v0.1.3 panics on variables that
// come after the last output.
type Trace struct {
	Patches *Node        // [batch, Rows·Cols, width] after the patch projection and, if configured, its LayerNorm
	Tokens  *Node        // [batch, prefix+Rows·Cols, width] with positions, before dropout
	Blocks  []BlockTrace // one per block
	Encoded *Node        // [batch, prefix+Rows·Cols, width] after the final LayerNorm, float32 like all below
	Pooled  *Node        // [batch, PooledWidth] input of the head
	Logits  *Node        // [batch, classes]

	Encoder position.Encoder // of the positions
}

// Logits builds the model in scope and returns its class logits, float32 [batch, classes]. Images are normalized
// float32 [batch, ImageRows, ImageCols, Channels].
func (c Config) Logits(scope *model.Scope, images *Node) *Node {
	return c.Trace(scope, images, false).Logits
}

// Trace builds the model in scope and returns its intermediate values. Returning the attention weights disables the
// fused attention of backends that have one.
func (c Config) Trace(scope *model.Scope, images *Node, attentionWeights bool) *Trace {
	c = c.resolved()
	return c.trace(scope, c.cut(images), func(scope *model.Scope) placement {
		weights := Const(images.Graph(), c.PoolWeights(c.Rows()*c.Cols(), c.Tokens()))
		if c.PooledWidth() > c.Width {
			weights = Reshape(weights, 2, -1)
		}
		return placement{Encoder: c.encoder(scope), weights: weights}
	}, attentionWeights)
}

// trace is the network on the pixels of patches, [batch, N, PatchSize·PatchSize·Channels]. at builds their positions in
// the scope that it receives.
func (c Config) trace(scope *model.Scope, pixels *Node, at func(*model.Scope) placement, attentionWeights bool) *Trace {
	g := pixels.Graph()
	init := c.initScheme()
	t := &Trace{Blocks: make([]BlockTrace, c.Depth)}

	x := c.project(scope.In(ScopePatch), pixels) // [batch, N, width]
	t.Patches = x
	x = c.prepend(scope, x) // [batch, prefix+N, width]
	positions := at(scope.In(ScopePosition))
	x = positions.add(c, x)
	t.Encoder, t.Tokens = positions.Encoder, x
	if c.PreNorm {
		x = c.norm(scope.In("pre_norm"), x)
	}
	x = c.dropout(scope, x)
	recompute := c.Recompute && scope.IsTraining(g)
	for i := range c.Depth {
		if recompute {
			x = x.Checkpoint()
		}
		t.Blocks[i] = c.Block(scope.In(ScopeBlock, i), x, positions.hooks(c, i), i, attentionWeights)
		x = positions.after(c, t.Blocks[i].Output, i)
		t.Blocks[i].Output = x
	}
	if recompute {
		x = x.StopCheckpoint()
	}
	t.Encoded = ConvertDType(x, dtypes.Float32)
	if c.FinalNorm == "" {
		t.Encoded = c.norm(scope.In("norm"), t.Encoded)
	}
	t.Pooled = positions.pool(c, scope, t.Encoded) // [batch, PooledWidth]
	if c.FinalNorm == "pooled" {
		t.Pooled = c.norm(scope.In("norm"), t.Pooled)
	}
	t.Logits = weight.Dense(scope.In(ScopeHead), t.Pooled, c.Classes, init.head, weight.Constant(0)) // [batch, classes]
	return t
}

// prepend puts the class token and the registers, if there are any, in front of patches x [batch, N, width].
func (c Config) prepend(scope *model.Scope, x *Node) *Node {
	var tokens []*Node
	for _, token := range []struct {
		name string
		n    int
	}{{VarClass, c.classTokens()}, {VarRegisters, c.Registers}} {
		if token.n > 0 {
			rows := weight.Float32(scope, token.name, c.initScheme().class, token.n, c.Width).NodeValue(x.Graph()) // [n, width]
			tokens = append(tokens, kernel.Repeat(InsertAxes(rows, 0), x.Shape().Dim(0), x.DType()))
		}
	}
	if tokens == nil {
		return x
	}
	return Concatenate(append(tokens, x), 1)
}

// Names of variables and scopes below the scope of a model, as in "block_03/attention/query/weights". They are a file
// format.
const (
	ScopePatch    = "patch"
	ScopePosition = "position"   // of all variables of the encoding
	ScopeBlock    = "block_%02d" // of the number of the block
	ScopePool     = "pool"
	ScopeHead     = "head"
	VarClass      = "class"
	VarRegisters  = "registers"

	PathTable = ScopePosition + "/" + position.TableName // the table of position "learned"
)

// Patches cuts images [batch, ImageRows, ImageCols, Channels] into squares and projects each to a token
// [batch, Rows·Cols, width]. It is the strided convolution of the paper written as a reshape and one matrix product:
// the weights are [patch·patch·channels, width], pixels row by row and channels last. c is resolved.
func (c Config) Patches(scope *model.Scope, images *Node) *Node {
	return c.project(scope, c.cut(images))
}

// cut returns the pixels of the squares, [batch, Rows·Cols, patch·patch·channels].
func (c Config) cut(images *Node) *Node {
	batch := images.Shape().Dimensions[0]
	if !slices.Equal(images.Shape().Dimensions[1:], []int{c.ImageRows, c.ImageCols, c.Channels}) {
		exceptions.Panicf("vit: images are %s, the model wants [batch, %d, %d, %d]",
			images.Shape(), c.ImageRows, c.ImageCols, c.Channels)
	}
	p := c.PatchSize
	x := ConvertDType(images, c.dtype())
	x = Reshape(x, batch, c.Rows(), p, c.Cols(), p, c.Channels)
	x = TransposeAllAxes(x, 0, 1, 3, 2, 4, 5) // [batch, rows, cols, p, p, channels]
	return Reshape(x, batch, c.Rows()*c.Cols(), p*p*c.Channels)
}

// project projects the pixels of patches to tokens [batch, N, width].
func (c Config) project(scope *model.Scope, pixels *Node) *Node {
	x := weight.Dense(scope, pixels, c.Width, c.initScheme().patch, biased(!c.PreNorm, weight.Constant(0)))
	if c.PatchNorm {
		x = c.norm(scope.In("norm"), x)
	}
	return x
}
