// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"slices"

	"github.com/wepe-go/wepe/vit"
)

// timmSizes are the arguments that all of timm's classes have.
func timmSizes(registersKey, pool string) []field {
	return slices.Concat([]field{
		pixels("img_size", 224), square("patch_size", 16),
		integer("in_chans", 3, 1, func(c *vit.Config) *int { return &c.Channels }),
		integer("embed_dim", 768, 1, func(c *vit.Config) *int { return &c.Width }),
		integer("depth", 12, 1, func(c *vit.Config) *int { return &c.Depth }),
		integer("num_heads", 12, 1, func(c *vit.Config) *int { return &c.Heads }),
		choice("global_pool", pool, func(c *vit.Config) *string { return &c.Pool }, words{"token", "class"},
			words{"avg", "mean"}, words{"map", "map"}, words{"token", "class+register"}),
		{key: "class_token", byDefault: true, set: func(m *foreign, value any) error {
			if m.config.Pool == "class" && value != true {
				return refuse(value, "true for the pooling by the class token")
			}
			m.config.ClassToken = m.config.Pool != "class" && value == true
			return nil
		}, get: func(m *foreign) any { return m.config.Prefix() > m.config.Registers }},
		integer(registersKey, 0, 0, registers),
		{key: "no_embed_class", byDefault: false, set: func(m *foreign, value any) error {
			c := &m.config
			c.PatchPositions, c.RegisterPositions = value == true && c.Prefix() > c.Registers, value != true && c.Registers > 0
			return nil
		}, get: func(m *foreign) any { return m.config.Prefix() > m.config.PrefixPositions() }},
		timmNorm("norm_layer"),
		{key: "num_classes"},
		layerScale("init_values", nil, nil, true),
	}, unused("dynamic_img_size", "drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate",
		"drop_path_rate", "weight_init", "fix_init", "head_init_scale"))
}

// timmNorms maps the norms in JSON to the norms in the table of architectures.
var timmNorms = []struct {
	rms     bool
	epsilon float64
	names   []any
}{
	{false, 1e-6, []any{"LayerNorm(eps=1e-06)", "LayerNorm", "layernorm"}},
	{false, 1e-5, []any{"LayerNorm(eps=1e-05)"}},
	{true, 1e-6, []any{"RmsNorm(eps=1e-06)", "RmsNorm", "rmsnorm"}},
	{true, 1e-5, []any{"RmsNorm(eps=1e-05)"}},
}

// timmNorm is a norm: its kind and epsilon.
func timmNorm(key string) field {
	return field{key: key, byDefault: "LayerNorm",
		set: func(m *foreign, value any) error {
			for _, norm := range timmNorms {
				if slices.Contains(norm.names, value) {
					m.config.RMSNorm, m.config.Epsilon = norm.rms, norm.epsilon
					return nil
				}
			}
			return refuse(value, "LayerNorm or RmsNorm of epsilon 1e-6 or 1e-5")
		},
		get: func(m *foreign) any { return normName(m.config) },
	}
}

func normName(c vit.Config) any {
	for _, norm := range timmNorms {
		if norm.rms == c.RMSNorm && norm.epsilon == c.Epsilon {
			return norm.names[0]
		}
	}
	return "none"
}

// canonical converts a value of the table of architectures, or of a file, to the form that the fields write.
func canonical(key string, value any) any {
	switch {
	case key == "norm_layer" || key == "embed_norm_layer" && value != nil:
		for _, norm := range timmNorms {
			if slices.Contains(norm.names, value) || value == nil && !norm.rms && norm.epsilon == 1e-6 {
				return norm.names[0]
			}
		}
	case key == "act_layer":
		switch value {
		case nil, "GELU":
			return "gelu"
		case "SiLU":
			return "silu"
		}
	}
	return value
}

// fixed are the arguments that no config.json can set: the named architecture must have them.
var fixed = []string{"norm_layer", "embed_norm_layer", "mlp_layer", "block_fn", "embed_layer", "attn_layer"}

const (
	packedGLU = "GluMlp(act_layer=SiLU,gate_last=False)" // gate and hidden layer in one tensor
	splitGLU  = "SwiGLU"
)

// timm's VisionTransformer: ViT, DeiT, DeiT-III, DINOv2, the image towers of CLIP and SigLIP, AIMv2, BEiT-3, RADIO.
var timmViT = family{
	format: formatTimm, class: "VisionTransformer", fields: timmViTFields,
	bases: []string{""}, block: "blocks.%d.",
	names: joined(timmNames, names{registersPath: "reg_token", scale1Path: "ls1.gamma", scale2Path: "ls2.gamma",
		"patch/norm/": "patch_embed.norm."}),
	vary:  timmVariants,
	extra: []string{"pre_logits.fc.weight", "pre_logits.fc.bias"}, resample: resampleTimm,
}

// timm's VisionTransformerDistilled: DeiT with its distillation token and two heads.
var timmDistilled = variant(timmViT, "VisionTransformerDistilled", func(f *family) {
	f.fields = replaced(f.fields, only("reg_tokens", 0, 0), only("no_embed_class", false, false))
	f.finish = func(m *foreign) error { return distilled(m, "class+register") }
	f.names, f.heads, f.extra = joined(f.names, names{registersPath: "dist_token"}), []string{"head", "head_dist"}, nil
})

var timmNames = names{
	classPath: "cls_token", positionPath: "pos_embed", patchPath: "patch_embed.proj.", headPath: "head.",
	"pre_norm/":          "norm_pre.",
	blockPath + "norm1/": "norm1.", blockPath + "norm2/": "norm2.",
	queryPath: "attn.qkv.", keyPath: "attn.qkv.", valuePath: "attn.qkv.", projPath: "attn.proj.",
	blockPath + "attention/query_norm/": "attn.q_norm.", blockPath + "attention/key_norm/": "attn.k_norm.",
	blockPath + "attention/norm/": "attn.norm.", blockPath + "mlp/norm/": "mlp.norm.", outputPath: "mlp.fc2.",
	poolPath + "latent": "attn_pool.latent", poolPath + "query/": "attn_pool.q.", poolPath + "key/": "attn_pool.kv.",
	poolPath + "value/": "attn_pool.kv.", poolPath + "output/": "attn_pool.proj.", poolPath + "norm/": "attn_pool.norm.",
	poolPath + "mlp_hidden/": "attn_pool.mlp.fc1.", poolPath + "mlp_output/": "attn_pool.mlp.fc2.",
}

// timmVariants sets the names that depend on the model.
func timmVariants(m *foreign, n names) {
	n["norm/"] = "norm."
	if m.config.FinalNorm == "pooled" {
		n["norm/"] = "fc_norm."
	}
	split := m.entries["mlp_layer"] == splitGLU
	if m.family.class == "Eva" {
		split = m.entries["scale_mlp"] == true || m.entries["swiglu_align_to"] != float64(0)
	}
	n[gatePath], n[hiddenPath] = "mlp.fc1.", "mlp.fc1."
	if m.config.SwiGLU && split {
		n[gatePath], n[hiddenPath] = "mlp.fc1_g.", "mlp.fc1_x."
	}
}

var timmViTFields = slices.Concat(timmSizes("reg_tokens", "token"), []field{
	qkvBias("qkv_bias", true, ""),
	boolean("qk_norm", false, false, func(c *vit.Config) *bool { return &c.QKNorm }),
	boolean("scale_attn_norm", false, false, func(c *vit.Config) *bool { return &c.ContextNorm }),
	boolean("scale_mlp_norm", false, false, func(c *vit.Config) *bool { return &c.MLPNorm }),
	boolean("proj_bias", true, true, func(c *vit.Config) *bool { return &c.NoProjBias },
		func(c *vit.Config) *bool { return &c.NoMLPBias }),
	boolean("pre_norm", false, false, func(c *vit.Config) *bool { return &c.PreNorm }),
	boolean("pool_include_prefix", false, false, func(c *vit.Config) *bool { return &c.PoolPrefix }),
	fcNorm("fc_norm"),
	{key: "final_norm", byDefault: true, set: func(m *foreign, value any) error {
		if value != true {
			m.config.FinalNorm = "none"
		}
		return nil
	}, get: func(m *foreign) any { return m.config.FinalNorm != "none" }},
	choice("pos_embed", "learn", func(c *vit.Config) *string { return &c.Position },
		words{"learn", "learned"}, words{"none", "none"}, words{"", "none"}),
	{key: "embed_norm_layer", set: func(m *foreign, value any) error {
		if value != nil && value != normName(m.config) {
			return refuse(value, "the norm of the blocks, or none")
		}
		m.config.PatchNorm = value != nil
		return nil
	}, get: func(m *foreign) any { return orNil(m.config.PatchNorm, normName(m.config)) }},
	{key: "mlp_ratio", byDefault: 4.0, set: mlpRatio.set, get: func(m *foreign) any {
		if timmMLP(m) == packedGLU {
			return ratioOf(m.config.Width, 2*m.config.MLPDim)
		}
		return ratioOf(m.config.Width, m.config.MLPDim)
	}},
	{key: "mlp_layer", byDefault: "Mlp", set: func(m *foreign, value any) error {
		switch c := &m.config; value {
		case "Mlp":
		case splitGLU:
			c.SwiGLU = true
		case packedGLU:
			c.SwiGLU, c.MLPDim = true, c.MLPDim/2
		default:
			return refuse(value, "Mlp, "+splitGLU+" or "+packedGLU)
		}
		return nil
	}, get: timmMLP},
	gated(choice("act_layer", "gelu", func(c *vit.Config) *string { return &c.Activation },
		words{"gelu", ""}, words{"gelu_tanh", "gelu_tanh"}, words{"quick_gelu", "quick_gelu"})),
	only("block_fn", "Block", "Block"), only("embed_layer", "PatchEmbed", "PatchEmbed"),
	only("attn_layer", "Attention", "Attention"), only("dynamic_img_pad", false, false),
})

// timmMLP returns the layer of the MLP: AIMv2's without biases, or DINOv2's.
func timmMLP(m *foreign) any {
	switch {
	case !m.config.SwiGLU:
		return "Mlp"
	case m.config.NoMLPBias:
		return splitGLU
	}
	return packedGLU
}

// fcNorm moves the last norm behind the pooling; null does so if it is the mean.
func fcNorm(key string) field {
	return field{key: key, set: func(m *foreign, value any) error {
		if value == true || value == nil && m.config.Pool == "mean" {
			m.config.FinalNorm = "pooled"
		}
		return nil
	}, get: func(m *foreign) any { return m.config.FinalNorm == "pooled" }}
}
