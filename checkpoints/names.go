// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"strings"

	"github.com/wepe-go/wepe/vit"
)

// Formats of models, each a scheme of names and layouts.
const (
	FormatHF       = "hf"       // Hugging Face ViTModel and ViTForImageClassification
	FormatTimm     = "timm"     // timm's VisionTransformer
	FormatJAX      = "jax"      // Google's vision_transformer, .npz
	FormatUnfolded = "unfolded" // our own variables by their paths, with any position encoding
	FormatONNX     = "onnx"     // a graph for ONNX Runtime; written only
)

// row is one variable of vit under its four names; the unfolded format's is the path. In path %02d is the block, in the
// others %d is. Hugging Face's names stand below "vit." in ViTForImageClassification, the head's excepted.
//
// timm stacks query, key and value, in this order, into one tensor: its three rows have one name.
type row struct {
	path          string // below the model's scope
	layout        layout
	shape         func(vit.Config) []int // of our variable
	hf, timm, jax string
}

// table is the one place that knows names. A path in it is part of our own file format too: renaming one is a change
// of the API.
var table = []row{
	{"patch/weights", patchKernel, func(c vit.Config) []int {
		return []int{c.PatchSize * c.PatchSize * c.Channels, c.Width}
	}, "embeddings.patch_embeddings.projection.weight", "patch_embed.proj.weight", "embedding/kernel"},
	{"patch/biases", vector, width,
		"embeddings.patch_embeddings.projection.bias", "patch_embed.proj.bias", "embedding/bias"},
	{"patch/norm/gain", vector, width, "", "", ""}, // only of our own models with PatchNorm
	{"patch/norm/offset", vector, width, "", "", ""},
	{classPath, tokens, func(c vit.Config) []int { return []int{c.Prefix(), c.Width} },
		"embeddings.cls_token", "cls_token", "cls"},
	{positionPath, tokens, func(c vit.Config) []int { return []int{c.Tokens(), c.Width} },
		"embeddings.position_embeddings", "pos_embed", "Transformer/posembed_input/pos_embedding"},

	{"block_%02d/norm1/gain", vector, width, "encoder.layer.%d.layernorm_before.weight", "blocks.%d.norm1.weight",
		"Transformer/encoderblock_%d/LayerNorm_0/scale"},
	{"block_%02d/norm1/offset", vector, width, "encoder.layer.%d.layernorm_before.bias", "blocks.%d.norm1.bias",
		"Transformer/encoderblock_%d/LayerNorm_0/bias"},
	{"block_%02d/attention/query/weights", intoHeads, square, "encoder.layer.%d.attention.attention.query.weight",
		"blocks.%d.attn.qkv.weight", "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/query/kernel"},
	{"block_%02d/attention/query/biases", headsVector, width, "encoder.layer.%d.attention.attention.query.bias",
		"blocks.%d.attn.qkv.bias", "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/query/bias"},
	{"block_%02d/attention/key/weights", intoHeads, square, "encoder.layer.%d.attention.attention.key.weight",
		"blocks.%d.attn.qkv.weight", "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/key/kernel"},
	{"block_%02d/attention/key/biases", headsVector, width, "encoder.layer.%d.attention.attention.key.bias",
		"blocks.%d.attn.qkv.bias", "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/key/bias"},
	{"block_%02d/attention/value/weights", intoHeads, square, "encoder.layer.%d.attention.attention.value.weight",
		"blocks.%d.attn.qkv.weight", "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/value/kernel"},
	{"block_%02d/attention/value/biases", headsVector, width, "encoder.layer.%d.attention.attention.value.bias",
		"blocks.%d.attn.qkv.bias", "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/value/bias"},
	{"block_%02d/attention/output/weights", outOfHeads, square, "encoder.layer.%d.attention.output.dense.weight",
		"blocks.%d.attn.proj.weight", "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/out/kernel"},
	{"block_%02d/attention/output/biases", vector, width, "encoder.layer.%d.attention.output.dense.bias",
		"blocks.%d.attn.proj.bias", "Transformer/encoderblock_%d/MultiHeadDotProductAttention_1/out/bias"},
	{"block_%02d/norm2/gain", vector, width, "encoder.layer.%d.layernorm_after.weight", "blocks.%d.norm2.weight",
		"Transformer/encoderblock_%d/LayerNorm_2/scale"},
	{"block_%02d/norm2/offset", vector, width, "encoder.layer.%d.layernorm_after.bias", "blocks.%d.norm2.bias",
		"Transformer/encoderblock_%d/LayerNorm_2/bias"},
	{"block_%02d/mlp/hidden/weights", matrix, func(c vit.Config) []int { return []int{c.Width, c.MLPDim} },
		"encoder.layer.%d.intermediate.dense.weight", "blocks.%d.mlp.fc1.weight",
		"Transformer/encoderblock_%d/MlpBlock_3/Dense_0/kernel"},
	{"block_%02d/mlp/hidden/biases", vector, func(c vit.Config) []int { return []int{c.MLPDim} },
		"encoder.layer.%d.intermediate.dense.bias", "blocks.%d.mlp.fc1.bias",
		"Transformer/encoderblock_%d/MlpBlock_3/Dense_0/bias"},
	{"block_%02d/mlp/output/weights", matrix, func(c vit.Config) []int { return []int{c.MLPDim, c.Width} },
		"encoder.layer.%d.output.dense.weight", "blocks.%d.mlp.fc2.weight",
		"Transformer/encoderblock_%d/MlpBlock_3/Dense_1/kernel"},
	{"block_%02d/mlp/output/biases", vector, width, "encoder.layer.%d.output.dense.bias", "blocks.%d.mlp.fc2.bias",
		"Transformer/encoderblock_%d/MlpBlock_3/Dense_1/bias"},

	{"norm/gain", vector, width, "layernorm.weight", "norm.weight", "Transformer/encoder_norm/scale"},
	{"norm/offset", vector, width, "layernorm.bias", "norm.bias", "Transformer/encoder_norm/bias"},
	{headPath + "weights", matrix, func(c vit.Config) []int { return []int{c.Width, c.Classes} },
		"classifier.weight", "head.weight", "head/kernel"},
	{headPath + "biases", vector, func(c vit.Config) []int { return []int{c.Classes} },
		"classifier.bias", "head.bias", "head/bias"},
}

// Paths that the import treats in their own way.
const (
	classPath     = "class"
	positionsPath = "position/" // of all variables of an encoding
	positionPath  = positionsPath + "embedding"
	patchNormPath = "patch/norm/"
	headPath      = "head/"
	blockPath     = "block_"
)

func width(c vit.Config) []int  { return []int{c.Width} }
func square(c vit.Config) []int { return []int{c.Width, c.Width} }

// extraLayers are what a foreign model may have between its tokens and its head and ours has not: the pooler of
// ViTModel, which no classifier uses, and the tanh layer that in-21k models are trained with. They are never loaded.
var extraLayers = map[string][]string{
	FormatHF:   {"pooler.dense.weight", "pooler.dense.bias"},
	FormatTimm: {"pre_logits.fc.weight", "pre_logits.fc.bias"},
	FormatJAX:  {"pre_logits/kernel", "pre_logits/bias"},
}

// naming is a format with what stands before its names: "vit." or nothing.
type naming struct{ format, base string }

// name returns what the format calls a row in the given block.
func (n naming) name(r row, block int) string {
	name := r.hf
	switch n.format {
	case FormatTimm:
		name = r.timm
	case FormatJAX:
		name = r.jax
	case FormatUnfolded:
		name = r.path
	}
	if strings.HasPrefix(r.path, blockPath) {
		name = fmt.Sprintf(name, block)
	}
	if strings.HasPrefix(r.path, headPath) {
		return name
	}
	return n.base + name
}

// named is one variable of a model and where a foreign file holds it.
type named struct {
	row
	path    string // with the block
	foreign string
	part    int // which of the equal parts of the foreign tensor, from 0
	parts   int
	asIs    bool // a variable of the encoding of an unfolded model: its type and bits stay
}

// has says whether a model has the variable of a row outside of the blocks.
func has(r row, c vit.Config) bool {
	switch r.path {
	case classPath:
		return c.Prefix() > 0
	case positionPath:
		return c.Encoding().Owns(strings.TrimPrefix(positionPath, positionsPath))
	}
	return c.PatchNorm || !strings.HasPrefix(r.path, patchNormPath)
}

// names lists the variables of a model, those of one foreign tensor next to each other. Of a position encoding only the
// table of learned positions is among them; others know their variables themselves.
func (n naming) names(c vit.Config) []named {
	var all []named
	at := map[string]int{} // foreign name -> index of its first variable
	groups := [][]named{}
	add := func(r row, path string, block int) {
		v := named{row: r, path: path, foreign: n.name(r, block)}
		k, ok := at[v.foreign]
		if !ok {
			k = len(groups)
			at[v.foreign] = k
			groups = append(groups, nil)
		}
		v.part = len(groups[k])
		groups[k] = append(groups[k], v)
	}
	inBlock := func(r row) bool { return strings.HasPrefix(r.path, blockPath) }
	for _, r := range table {
		if !inBlock(r) && has(r, c) {
			add(r, r.path, 0)
		}
	}
	for block := range c.Depth {
		for _, r := range table {
			if inBlock(r) {
				add(r, fmt.Sprintf(r.path, block), block)
			}
		}
	}
	for _, group := range groups {
		for _, v := range group {
			v.parts = len(group)
			all = append(all, v)
		}
	}
	return all
}
