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

// Families are the columns of names that a format has: models whose code gives the same variables other names.
const (
	familyViT    = ""       // Hugging Face's ViT, timm's VisionTransformer (DeiT-III and DINOv2 among them), Google's
	familyDINOv2 = "dinov2" // Hugging Face's Dinov2 and Dinov2WithRegisters
	familyDINOv3 = "dinov3" // Hugging Face's DINOv3ViT, timm's Eva
)

// dinoPosition is the encoding of models of familyDINOv3.
const dinoPosition = "rope-dinov3"

// columns are the formats and families in the order of names.
var columns = []naming{
	{format: FormatHF}, {format: FormatHF, family: familyDINOv2}, {format: FormatHF, family: familyDINOv3},
	{format: FormatTimm}, {format: FormatTimm, family: familyDINOv3}, {format: FormatJAX},
}

// names are what the columns call one thing, Hugging Face's ViT, DINOv2 and DINOv3, timm's ViT and DINOv3, and JAX;
// empty where their models have it not. Those of Hugging Face stand below "vit." and the like in models with a
// classifier, the head's excepted.
type names [6]string

// row is one variable of vit and its names; the unfolded format's is the path. In path %02d is the block, in the others
// %d is.
//
// timm stacks query, key and value, in this order, into one tensor: its three rows have one name. So do gate and hidden
// layer of a SwiGLU, but in DINOv3.
type row struct {
	path   string // below the model's scope
	layout layout
	shape  func(vit.Config) []int // of our variable
	has    func(vit.Config) bool  // whether a model has it
	names
}

// modules are the parts of a ViT that have two variables: weights [in, out] and biases [out], or where in is nil a
// norm's gain and offset, both [out]. What belongs to a block has its number in all names. An MLP has other names in a
// SwiGLU, with the same paths.
var modules = []struct {
	path    string
	layout  layout
	in, out func(vit.Config) int
	has     func(vit.Config) bool
	names
}{
	{patchPath, patchKernel, patchDim, width, always, names{"embeddings.patch_embeddings.projection",
		"embeddings.patch_embeddings.projection", "embeddings.patch_embeddings", "patch_embed.proj", "patch_embed.proj",
		"embedding"}},
	{patchNormPath, vector, nil, width, func(c vit.Config) bool { return c.PatchNorm }, names{}}, // of our own models
	{blockPath + "norm1/", vector, nil, width, always, names{"layernorm_before", "norm1", "norm1", "norm1", "norm1",
		"LayerNorm_0"}},
	{queryPath, intoHeads, width, width, always, names{"attention.attention.query", "attention.attention.query",
		"attention.q_proj", "attn.qkv", "attn.qkv", "MultiHeadDotProductAttention_1/query"}},
	{keyPath, intoHeads, width, width, always, names{"attention.attention.key", "attention.attention.key",
		"attention.k_proj", "attn.qkv", "attn.qkv", "MultiHeadDotProductAttention_1/key"}},
	{valuePath, intoHeads, width, width, always, names{"attention.attention.value", "attention.attention.value",
		"attention.v_proj", "attn.qkv", "attn.qkv", "MultiHeadDotProductAttention_1/value"}},
	{blockPath + "attention/output/", outOfHeads, width, width, always, names{"attention.output.dense",
		"attention.output.dense", "attention.o_proj", "attn.proj", "attn.proj", "MultiHeadDotProductAttention_1/out"}},
	{blockPath + "norm2/", vector, nil, width, always, names{"layernorm_after", "norm2", "norm2", "norm2", "norm2",
		"LayerNorm_2"}},
	{hiddenPath, matrix, width, mlpDim, plainMLP, names{"intermediate.dense", "mlp.fc1", "mlp.up_proj", "mlp.fc1",
		"mlp.fc1", "MlpBlock_3/Dense_0"}},
	{outputPath, matrix, mlpDim, width, plainMLP, names{"output.dense", "mlp.fc2", "mlp.down_proj", "mlp.fc2", "mlp.fc2",
		"MlpBlock_3/Dense_1"}},
	{gatePath, matrix, width, mlpDim, swiGLU, names{"", "mlp.weights_in", "mlp.gate_proj", "mlp.fc1", "mlp.fc1_g"}},
	{hiddenPath, matrix, width, mlpDim, swiGLU, names{"", "mlp.weights_in", "mlp.up_proj", "mlp.fc1", "mlp.fc1_x"}},
	{outputPath, matrix, mlpDim, width, swiGLU, names{"", "mlp.weights_out", "mlp.down_proj", "mlp.fc2", "mlp.fc2"}},
	{"norm/", vector, nil, width, always, names{"layernorm", "layernorm", "norm", "norm", "norm",
		"Transformer/encoder_norm"}},
	{headPath, matrix, vit.Config.PooledWidth, classes, always, names{"classifier", "classifier", "", "head", "head",
		"head"}},
}

// table is the one place that knows names. A path in it is part of our own file format too: renaming one is a change
// of the API.
var table = func() []row {
	inBlock := names{"encoder.layer.%d.", "encoder.layer.%d.", "layer.%d.", "blocks.%d.", "blocks.%d.",
		"Transformer/encoderblock_%d/"}
	ending := func(torch, jax string) names { return names{torch, torch, torch, torch, torch, jax} }
	perChannel := func(c vit.Config) []int { return []int{c.Width} }
	scaled := func(c vit.Config) bool { return c.LayerScale > 0 }
	all := []row{
		{classPath, tokens, func(c vit.Config) []int { return []int{c.Prefix() - c.Registers, c.Width} },
			func(c vit.Config) bool { return c.Prefix() > c.Registers },
			names{"embeddings.cls_token", "embeddings.cls_token", "embeddings.cls_token", "cls_token", "cls_token", "cls"}},
		{registersPath, tokens, func(c vit.Config) []int { return []int{c.Registers, c.Width} },
			func(c vit.Config) bool { return c.Registers > 0 },
			names{"", "embeddings.register_tokens", "embeddings.register_tokens", "reg_token", "reg_token"}},
		{positionPath, tokens, func(c vit.Config) []int { return []int{c.Positions(), c.Width} },
			func(c vit.Config) bool { return c.Encoding().Owns(strings.TrimPrefix(positionPath, positionsPath)) },
			names{"embeddings.position_embeddings", "embeddings.position_embeddings", "", "pos_embed", "",
				"Transformer/posembed_input/pos_embedding"}},
		{scale1Path, vector, perChannel, scaled, inBlock.with(names{"", "layer_scale1.lambda1", "layer_scale1.lambda1",
			"ls1.gamma", "gamma_1"})},
		{scale2Path, vector, perChannel, scaled, inBlock.with(names{"", "layer_scale2.lambda1", "layer_scale2.lambda1",
			"ls2.gamma", "gamma_2"})},
	}
	for _, m := range modules {
		if strings.HasPrefix(m.path, blockPath) {
			m.names = inBlock.with(m.names)
		}
		out := func(c vit.Config) []int { return []int{m.out(c)} }
		if m.in == nil {
			all = append(all, row{m.path + "gain", vector, out, m.has, m.names.with(ending(".weight", "/scale"))},
				row{m.path + "offset", vector, out, m.has, m.names.with(ending(".bias", "/bias"))})
			continue
		}
		biases, layout, biased := m.names.with(ending(".bias", "/bias")), vector, m.has
		if m.layout == intoHeads {
			layout = headsVector
			biased = func(c vit.Config) bool {
				return c.QKVBias == vit.QKVBiasAll || c.QKVBias == vit.QKVBiasNoKey && m.path != keyPath
			}
			part := strings.TrimPrefix(m.path, blockPath+"attention/")[:1] // Eva's are not stacked
			biases[4] = fmt.Sprintf("%sattn.%s_bias", inBlock[4], part)
		}
		all = append(all,
			row{m.path + "weights", m.layout, func(c vit.Config) []int { return []int{m.in(c), m.out(c)} }, m.has,
				m.names.with(ending(".weight", "/kernel"))},
			row{m.path + "biases", layout, out, biased, biases})
	}
	return all
}()

// with appends to every name that is there on both sides.
func (n names) with(ends names) names {
	for i := range n {
		if n[i] += ends[i]; ends[i] == "" || n[i] == ends[i] {
			n[i] = ""
		}
	}
	return n
}

// Paths that the import treats in their own way.
const (
	classPath     = "class"
	registersPath = "registers"
	positionsPath = "position/" // of all variables of an encoding
	positionPath  = positionsPath + "embedding"
	patchPath     = "patch/"
	patchNormPath = "patch/norm/"
	headPath      = "head/"
	blockPath     = "block_%02d/"
	queryPath     = blockPath + "attention/query/"
	keyPath       = blockPath + "attention/key/"
	valuePath     = blockPath + "attention/value/"
	gatePath      = blockPath + "mlp/gate/"
	hiddenPath    = blockPath + "mlp/hidden/"
	outputPath    = blockPath + "mlp/output/"
	scale1Path    = blockPath + "scale1"
	scale2Path    = blockPath + "scale2"
)

func width(c vit.Config) int     { return c.Width }
func mlpDim(c vit.Config) int    { return c.MLPDim }
func classes(c vit.Config) int   { return c.Classes }
func patchDim(c vit.Config) int  { return c.PatchSize * c.PatchSize * c.Channels }
func always(vit.Config) bool     { return true }
func swiGLU(c vit.Config) bool   { return c.SwiGLU }
func plainMLP(c vit.Config) bool { return !c.SwiGLU }

// extraLayers are what a foreign model may have beside its tokens and its head, and ours has not: the pooler of
// ViTModel, which no classifier uses, the token that stands for hidden patches in the training of DINO, and the tanh
// layer that in-21k models are trained with. They are never loaded.
var extraLayers = map[string][]string{
	FormatHF:   {"pooler.dense.weight", "pooler.dense.bias", "embeddings.mask_token"},
	FormatTimm: {"pre_logits.fc.weight", "pre_logits.fc.bias"},
	FormatJAX:  {"pre_logits/kernel", "pre_logits/bias"},
}

// naming is a column of names with what stands before them: "vit." or the like, or nothing.
type naming struct{ format, family, base string }

// name returns what the format calls a row in the given block, empty where it has no such variable.
func (n naming) name(r row, block int) string {
	name := r.path
	if n.format != FormatUnfolded {
		name = r.names[slices.Index(columns, naming{format: n.format, family: n.family})]
	}
	if strings.HasPrefix(r.path, blockPath) && name != "" {
		name = fmt.Sprintf(name, block)
	}
	if strings.HasPrefix(r.path, headPath) || name == "" {
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

// variables lists the variables of a model, those of one foreign tensor next to each other. Of a position encoding only
// the table of learned positions is among them; others know their variables themselves.
func (n naming) variables(c vit.Config) (all []named) {
	for _, r := range table {
		if !r.has(c) {
			continue
		}
		if !strings.HasPrefix(r.path, blockPath) {
			all = append(all, named{row: r, path: r.path, foreign: n.name(r, 0)})
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
