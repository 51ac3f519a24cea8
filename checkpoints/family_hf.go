// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"maps"
	"slices"

	"github.com/wepe-go/wepe/vit"
)

// hfSizes are the fields that all of transformers' image models have.
func hfSizes(width, depth, heads, mlp, patch int, eps float64, activation field) []field {
	return []field{
		integer("hidden_size", width, 1, func(c *vit.Config) *int { return &c.Width }),
		integer("num_hidden_layers", depth, 1, func(c *vit.Config) *int { return &c.Depth }),
		integer("num_attention_heads", heads, 1, func(c *vit.Config) *int { return &c.Heads }),
		integer("intermediate_size", mlp, 1, func(c *vit.Config) *int { return &c.MLPDim }),
		integer("num_channels", 3, 1, func(c *vit.Config) *int { return &c.Channels }),
		pixels("image_size", 224), square("patch_size", patch),
		epsilon("layer_norm_eps", eps),
		activation,
	}
}

// hfDropouts are the dropout rates of training.
var hfDropouts = []field{
	{key: "hidden_dropout_prob", get: func(m *foreign) any { return m.config.Dropout }},
	{key: "attention_probs_dropout_prob", get: func(m *foreign) any { return m.config.AttentionDropout }},
}

// hfActivation is the activation of an MLP without SwiGLU.
func hfActivation(byDefault string) field {
	return choice("hidden_act", byDefault, func(c *vit.Config) *string { return &c.Activation },
		words{"gelu", ""}, words{"gelu_python", ""},
		words{"gelu_pytorch_tanh", "gelu_tanh"}, words{"gelu_new", "gelu_tanh"},
		words{"quick_gelu", "quick_gelu"})
}

// qkvBias is one field for the biases of query, key and value.
func qkvBias(key string, byDefault bool, with string) field {
	return choice(key, byDefault, func(c *vit.Config) *string { return &c.QKVBias }, words{true, with},
		words{false, "none"})
}

// The names of transformers' ViT and of the models derived from it.
var (
	hfEmbeddings = names{
		classPath: "embeddings.cls_token", positionPath: "embeddings.position_embeddings",
		patchPath: "embeddings.patch_embeddings.projection.", headPath: "classifier.", "norm/": "layernorm.",
	}
	hfAttention = names{
		queryPath: "attention.attention.query.", keyPath: "attention.attention.key.",
		valuePath: "attention.attention.value.", projPath: "attention.output.dense.",
	}
	hfBlock = names{
		blockPath + "norm1/": "layernorm_before.", blockPath + "norm2/": "layernorm_after.",
		hiddenPath: "intermediate.dense.", outputPath: "output.dense.",
	}
	hfCurrentAttention = names{queryPath: "attention.q_proj.", keyPath: "attention.k_proj.",
		valuePath: "attention.v_proj.", projPath: "attention.o_proj."}
	hfCurrent = &spelling{"layers.%d.", joined(hfCurrentAttention, names{
		hiddenPath: "mlp.fc1.", outputPath: "mlp.fc2.",
		relativePath: "layers.%d.relative_position_bias.relative_position_bias_table",
	})}
)

var hfViT = family{
	format: formatHF, class: "ViTForImageClassification", types: []string{"vit"},
	fields: slices.Concat(hfSizes(768, 12, 12, 3072, 16, 1e-12, hfActivation("gelu")),
		hfDropouts, []field{qkvBias("qkv_bias", true, "")}, // and of a ViT that was an MAE:
		unused("decoder_num_attention_heads", "decoder_hidden_size", "decoder_num_hidden_layers",
			"decoder_intermediate_size", "mask_ratio", "norm_pix_loss")),
	bases: []string{"vit.", ""}, block: "encoder.layer.%d.", names: joined(hfEmbeddings, hfAttention, hfBlock),
	extra: []string{"pooler.", "embeddings.mask_token"}, current: hfCurrent, resample: resampleHF,
	tower: "ViTModel",
}

// MSN and MAE are ViTs with other names; MAE's decoder is only for its training. I-JEPA has no class token.
var hfMSN = variant(hfViT, "ViTMSNForImageClassification", func(f *family) {
	f.types, f.tower = []string{"vit_msn"}, "ViTMSNModel"
	f.fields = replaced(f.fields, epsilon("layer_norm_eps", 1e-6))
})

var hfMAE = variant(hfViT, "ViTMAEModel", func(f *family) {
	f.types, f.extra = []string{"vit_mae"}, []string{"decoder."}
	f.bases = []string{"", "vit."}
	f.withoutHead()
})

var hfIJepa = variant(hfViT, "IJepaForImageClassification", func(f *family) {
	f.types, f.bases, f.tower = []string{"ijepa"}, []string{"ijepa.", ""}, "IJepaModel"
	f.finish = func(m *foreign) error { m.config.Pool = "mean"; return nil }
})

// DeiT has a distillation token: here a register with a position. transformers' classifier reads either the class token
// alone, or both tokens with two heads.
var hfDeiT = variant(hfViT, "DeiTForImageClassification", func(f *family) {
	f.types, f.bases, f.tower = []string{"deit"}, []string{"deit.", ""}, "DeiTModel"
	f.names = joined(f.names, names{registersPath: "embeddings.distillation_token"})
	f.finish = func(m *foreign) error { return distilled(m, "class") }
})

var hfDeiTTeacher = variant(hfDeiT, "DeiTForImageClassificationWithTeacher", func(f *family) {
	f.heads, f.tower = []string{"cls_classifier", "distillation_classifier"}, ""
	f.finish = func(m *foreign) error { return distilled(m, "class+register") }
})

func distilled(m *foreign, pool string) error {
	m.config.Pool, m.config.Registers, m.config.RegisterPositions = pool, 1, true
	return nil
}

// CLIP's image tower: a classifier reads the mean of the patch tokens of the last block, the tower itself the norm of
// the class token.
var hfCLIP = family{
	format: formatHF, class: "CLIPForImageClassification", inner: "vision_config", types: []string{"clip"},
	fields: slices.Concat(hfSizes(768, 12, 12, 3072, 32, 1e-5, hfActivation("quick_gelu")),
		[]field{only("attention_bias", true, true)}),
	finish: func(m *foreign) error {
		if m.config.PreNorm = true; m.head {
			m.config.Pool, m.config.ClassToken, m.config.FinalNorm = "mean", true, "none"
		}
		return nil
	},
	bases: []string{"vision_model.", ""}, block: "encoder.layers.%d.", square: true,
	names: joined(clipBlock, names{
		classPath: "embeddings.class_embedding", positionPath: "embeddings.position_embedding.weight",
		patchPath: "embeddings.patch_embedding.", "pre_norm/": "pre_layrnorm.", "norm/": "post_layernorm.",
		headPath: "classifier.",
	}),
	ranks: map[string]int{classPath: 1, positionPath: 2}, resample: resampleHF,
	extra: []string{"text_model.", "visual_projection.weight", "text_projection.weight", "logit_scale",
		"embeddings.position_ids", "post_layernorm."},
}

var clipBlock = names{
	blockPath + "norm1/": "layer_norm1.", blockPath + "norm2/": "layer_norm2.", queryPath: "self_attn.q_proj.",
	keyPath: "self_attn.k_proj.", valuePath: "self_attn.v_proj.", projPath: "self_attn.out_proj.",
	hiddenPath: "mlp.fc1.", outputPath: "mlp.fc2.",
}

var hfCLIPVision = variant(hfCLIP, "CLIPVisionModel", func(f *family) {
	f.types, f.inner, f.bases = []string{"clip_vision_model"}, "", []string{"vision_model.", ""}
	f.withoutHead()
})

// SigLIP's image tower: a classifier reads the mean of all tokens, the tower itself its attention pooling.
var hfSigLIP = family{
	format: formatHF, class: "SiglipForImageClassification", inner: "vision_config", types: []string{"siglip"},
	fields: slices.Concat(hfSizes(768, 12, 12, 3072, 16, 1e-6, hfActivation("gelu_pytorch_tanh")),
		[]field{{key: "vision_use_head", byDefault: true, set: func(m *foreign, value any) error {
			if value != true && !m.head {
				return refuse(value, "true of a model without a classifier, which has no other pooling")
			}
			return nil
		}, get: func(m *foreign) any { return m.config.Pool == "map" }}}),
	finish: func(m *foreign) error {
		if m.config.Pool = "map"; m.head {
			m.config.Pool = "mean"
		}
		return nil
	},
	bases: []string{"vision_model.", ""}, block: "encoder.layers.%d.", square: true,
	names: joined(clipBlock, names{
		positionPath: "embeddings.position_embedding.weight", patchPath: "embeddings.patch_embedding.",
		"norm/": "post_layernorm.", headPath: "classifier.", poolPath + "latent": "head.probe",
		poolPath + "query/weights": "head.attention.in_proj_weight", poolPath + "query/biases": "head.attention.in_proj_bias",
		poolPath + "key/weights": "head.attention.in_proj_weight", poolPath + "key/biases": "head.attention.in_proj_bias",
		poolPath + "value/weights": "head.attention.in_proj_weight", poolPath + "value/biases": "head.attention.in_proj_bias",
		poolPath + "output/": "head.attention.out_proj.", poolPath + "norm/": "head.layernorm.",
		poolPath + "mlp_hidden/": "head.mlp.fc1.", poolPath + "mlp_output/": "head.mlp.fc2.",
	}),
	ranks: map[string]int{positionPath: 2}, resample: resampleHF,
	extra: []string{"text_model.", "logit_scale", "logit_bias", "embeddings.position_ids", "head."},
}

var hfSigLIPVision = variant(hfSigLIP, "SiglipVisionModel", func(f *family) {
	f.types, f.inner, f.bases = []string{"siglip_vision_model"}, "", []string{"vision_model.", ""}
	f.withoutHead()
})

// withoutHead makes a class one of models without a classifier.
func (f *family) withoutHead() {
	f.noHead, f.tower, f.names = true, "", maps.Clone(f.names)
	delete(f.names, headPath)
}

// joined is the union of names.
func joined(all ...names) names {
	out := names{}
	for _, n := range all {
		maps.Copy(out, n)
	}
	return out
}

// BEiT and BEiT v2 in transformers: no bias of the keys, relative biases in every block, absolute positions or both.
var hfBEiT = family{
	format: formatHF, class: "BeitForImageClassification", types: []string{"beit"},
	fields: slices.Concat(hfSizes(768, 12, 12, 3072, 16, 1e-12, hfActivation("gelu")), hfDropouts, []field{
		only("use_shared_relative_position_bias", false, false),
		layerScale("layer_scale_init_value", 0.1, fraction(0), true),
		choice("use_mean_pooling", true, func(c *vit.Config) *string { return &c.Pool }, words{true, "mean"},
			words{false, "class"}),
		{key: "qkv_bias", byDefault: true},
	}, tables("use_absolute_position_embeddings", false, "use_relative_position_bias")),
	finish: func(m *foreign) error {
		c := &m.config
		if c.QKVBias = "qv"; c.Pool == "mean" {
			c.ClassToken, c.FinalNorm = true, "pooled"
		}
		return nil
	},
	bases: []string{"beit.", ""}, block: "encoder.layer.%d.",
	names: joined(hfEmbeddings, hfAttention, hfBlock, names{
		scale1Path: "lambda_1", scale2Path: "lambda_2",
		relativePath: "encoder.layer.%d.attention.attention.relative_position_bias.relative_position_bias_table",
	}),
	vary: func(m *foreign, n names) {
		if m.config.FinalNorm == "pooled" {
			n["norm/"] = "pooler.layernorm."
		}
	},
	extra: []string{"embeddings.mask_token", "*.relative_position_index"}, current: hfCurrent, resample: resampleHF,
	tower: "BeitModel", square: true, // relative tables are read as [2·cols-1, 2·rows-1], others resampled as squares
}

// tables are the fields of BEiT's two tables of positions, absolute and relative.
func tables(absolute string, byDefault bool, relative string) []field {
	return []field{
		{key: absolute, byDefault: byDefault, get: func(m *foreign) any { return owns(m.config, positionPath) }},
		{key: relative, byDefault: false, set: func(m *foreign, value any) error {
			m.config.Position = positionsOf(m.entries[absolute] == true, map[bool]string{true: "relative-table"}[value == true])
			return nil
		}, get: func(m *foreign) any { return owns(m.config, relativePath) }},
	}
}

// positionsOf returns the name of an encoding that consists of a table of positions, or none, and another encoding, or
// none.
func positionsOf(absolute bool, other string) string {
	switch {
	case absolute && other != "":
		return "learned+" + other
	case absolute:
		return "learned"
	case other != "":
		return other
	}
	return "none"
}
