// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"slices"
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

// modules are the parts of a ViT that have two variables: weights [in, out] and biases [out], or where in is nil a
// norm's gain and offset, both [out]. What belongs to a block has its number in all names.
var modules = []struct {
	path          string
	layout        layout
	in, out       func(vit.Config) int
	hf, timm, jax string
}{
	{patchPath, patchKernel, patchDim, width, "embeddings.patch_embeddings.projection", "patch_embed.proj", "embedding"},
	{patchNormPath, vector, nil, width, "", "", ""}, // only of our own models with PatchNorm
	{blockPath + "norm1/", vector, nil, width, "layernorm_before", "norm1", "LayerNorm_0"},
	{blockPath + "attention/query/", intoHeads, width, width, "attention.attention.query", "attn.qkv",
		"MultiHeadDotProductAttention_1/query"},
	{blockPath + "attention/key/", intoHeads, width, width, "attention.attention.key", "attn.qkv",
		"MultiHeadDotProductAttention_1/key"},
	{blockPath + "attention/value/", intoHeads, width, width, "attention.attention.value", "attn.qkv",
		"MultiHeadDotProductAttention_1/value"},
	{blockPath + "attention/output/", outOfHeads, width, width, "attention.output.dense", "attn.proj",
		"MultiHeadDotProductAttention_1/out"},
	{blockPath + "norm2/", vector, nil, width, "layernorm_after", "norm2", "LayerNorm_2"},
	{blockPath + "mlp/hidden/", matrix, width, mlpDim, "intermediate.dense", "mlp.fc1", "MlpBlock_3/Dense_0"},
	{blockPath + "mlp/output/", matrix, mlpDim, width, "output.dense", "mlp.fc2", "MlpBlock_3/Dense_1"},
	{"norm/", vector, nil, width, "layernorm", "norm", "Transformer/encoder_norm"},
	{headPath, matrix, width, classes, "classifier", "head", "head"},
}

// table is the one place that knows names. A path in it is part of our own file format too: renaming one is a change
// of the API.
var table = func() []row {
	all := []row{
		{classPath, tokens, func(c vit.Config) []int { return []int{c.Prefix(), c.Width} },
			"embeddings.cls_token", "cls_token", "cls"},
		{positionPath, tokens, func(c vit.Config) []int { return []int{c.Tokens(), c.Width} },
			"embeddings.position_embeddings", "pos_embed", "Transformer/posembed_input/pos_embedding"},
	}
	for _, m := range modules {
		if strings.HasPrefix(m.path, blockPath) {
			m.hf, m.timm, m.jax = "encoder.layer.%d."+m.hf, "blocks.%d."+m.timm, "Transformer/encoderblock_%d/"+m.jax
		}
		out := func(c vit.Config) []int { return []int{m.out(c)} }
		if m.in == nil {
			all = append(all, row{m.path + "gain", vector, out, m.hf + ".weight", m.timm + ".weight", m.jax + "/scale"},
				row{m.path + "offset", vector, out, m.hf + ".bias", m.timm + ".bias", m.jax + "/bias"})
			continue
		}
		biases := vector
		if m.layout == intoHeads {
			biases = headsVector
		}
		all = append(all, row{m.path + "weights", m.layout, func(c vit.Config) []int { return []int{m.in(c), m.out(c)} },
			m.hf + ".weight", m.timm + ".weight", m.jax + "/kernel"},
			row{m.path + "biases", biases, out, m.hf + ".bias", m.timm + ".bias", m.jax + "/bias"})
	}
	return all
}()

// Paths that the import treats in their own way.
const (
	classPath     = "class"
	positionsPath = "position/" // of all variables of an encoding
	positionPath  = positionsPath + "embedding"
	patchPath     = "patch/"
	patchNormPath = "patch/norm/"
	headPath      = "head/"
	blockPath     = "block_%02d/"
)

func width(c vit.Config) int    { return c.Width }
func mlpDim(c vit.Config) int   { return c.MLPDim }
func classes(c vit.Config) int  { return c.Classes }
func patchDim(c vit.Config) int { return c.PatchSize * c.PatchSize * c.Channels }

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
func (n naming) names(c vit.Config) (all []named) {
	for _, r := range table {
		if !strings.HasPrefix(r.path, blockPath) {
			if has(r, c) {
				all = append(all, named{row: r, path: r.path, foreign: n.name(r, 0)})
			}
			continue
		}
		for block := range c.Depth {
			all = append(all, named{row: r, path: fmt.Sprintf(r.path, block), foreign: n.name(r, block)})
		}
	}
	slices.SortStableFunc(all, func(a, b named) int { return strings.Compare(a.foreign, b.foreign) })
	for begin := 0; begin < len(all); {
		end := begin + 1
		for end < len(all) && all[end].foreign == all[begin].foreign {
			end++
		}
		for k := begin; k < end; k++ {
			all[k].part, all[k].parts = k-begin, end-begin
		}
		begin = end
	}
	return all
}
