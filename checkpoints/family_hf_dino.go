// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/vit"
)

var hfDINOv2 = family{
	format: formatHF, class: "Dinov2ForImageClassification", types: []string{"dinov2"},
	fields: dinov2Fields(14), finish: func(m *foreign) error { // the classifier reads the class and the mean
		if m.head {
			m.config.Pool = "class+mean"
		}
		return nil
	},
	bases: []string{"dinov2.", ""}, block: "encoder.layer.%d.",
	names: joined(hfEmbeddings, hfAttention, names{
		registersPath: "embeddings.register_tokens",
		scale1Path:    "layer_scale1.lambda1", scale2Path: "layer_scale2.lambda1",
		blockPath + "norm1/": "norm1.", blockPath + "norm2/": "norm2.",
	}),
	vary: func(m *foreign, n names) {
		n[hiddenPath], n[outputPath] = "mlp.fc1.", "mlp.fc2."
		if m.config.SwiGLU {
			n[gatePath], n[hiddenPath], n[outputPath] = "mlp.weights_in.", "mlp.weights_in.", "mlp.weights_out."
			if m.current {
				n[gatePath], n[hiddenPath], n[outputPath] = "mlp.gate_proj.", "mlp.up_proj.", "mlp.down_proj."
			}
		}
	},
	current: &spelling{"encoder.layer.%d.", hfCurrentAttention},
	extra:   []string{"embeddings.mask_token"}, mask: 2, resample: resampleHF, square: true, cannot: dinov2Cannot,
	tower: "Dinov2Model",
}

// The model with registers resamples its positions with antialiasing.
var hfDINOv2Registers = variant(hfDINOv2, "Dinov2WithRegistersForImageClassification", func(f *family) {
	f.types, f.bases = []string{"dinov2_with_registers"}, []string{"dinov2_with_registers.", ""}
	f.fields = append(dinov2Fields(16), integer("num_register_tokens", 4, 0, registers))
	f.resample, f.tower = resampleTimm, "Dinov2WithRegistersModel"
})

func dinov2Fields(patch int) []field {
	sizes := without(hfSizes(768, 12, 12, 0, patch, 1e-6, hfActivation("gelu")), "intermediate_size")
	return slices.Concat(sizes, hfDropouts, []field{
		qkvBias("qkv_bias", true, ""), layerScale("layerscale_value", 1.0, fraction(0), false),
		boolean("use_swiglu_ffn", false, false, func(c *vit.Config) *bool { return &c.SwiGLU }),
		{key: "mlp_ratio", byDefault: 4.0, set: func(m *foreign, value any) error {
			ratio, err := number(value)
			m.config.MLPDim = dinov2Hidden(m.config, ratio)
			return err
		}, get: func(m *foreign) any {
			for ratio := range 1 << 10 { // transformers accepts only integers
				if dinov2Hidden(m.config, float64(ratio)) == m.config.MLPDim {
					return ratio
				}
			}
			return ratioOf(m.config.Width, m.config.MLPDim)
		}},
	})
}

// dinov2Hidden returns the hidden units for a ratio. A SwiGLU has two thirds of them, rounded up to a multiple of 8.
func dinov2Hidden(c vit.Config, ratio float64) int {
	units := hidden(c.Width, ratio)
	if c.SwiGLU {
		units = (int(float64(units)*2/3) + 7) / 8 * 8
	}
	return units
}

func dinov2Cannot(c vit.Config, out map[string]any) error {
	if _, whole := out["mlp_ratio"].(int); !whole {
		return errors.Errorf("transformers takes integers as mlp_ratio of Dinov2, and none makes %d hidden units of width "+
			"%d: %s", c.MLPDim, c.Width, otherFormat)
	}
	return nil
}

// DINOv3 in transformers, which has no classifier for it. The two layers of its SwiGLU are separate tensors.
var hfDINOv3 = family{
	format: formatHF, class: "DINOv3ViTModel", types: []string{"dinov3_vit"}, noHead: true,
	fields: slices.Concat([]field{
		{set: func(m *foreign, _ any) error { m.config.Position = "rope-dinov3"; return nil }}, // no entry
		boolean("use_gated_mlp", false, false, func(c *vit.Config) *bool { return &c.SwiGLU }),
	}, hfSizes(384, 12, 6, 1536, 16, 1e-5, gated(hfActivation("gelu"))), []field{
		layerScale("layerscale_value", 1.0, fraction(0), false),
		integer("num_register_tokens", 0, 0, registers),
		dinov3Bias("query_bias", true, true), dinov3Bias("key_bias", false, false), dinov3Bias("value_bias", true, true),
		boolean("proj_bias", true, true, func(c *vit.Config) *bool { return &c.NoProjBias }),
		boolean("mlp_bias", true, true, func(c *vit.Config) *bool { return &c.NoMLPBias }),
		rotation("rope_theta", 100.0, "rope_theta", 100, 100),
		rotation("pos_embed_shift", nil, "rope_dinov3_shift", 0, 0),
		rotation("pos_embed_jitter", nil, "rope_dinov3_jitter", 0, 0),
		rotation("pos_embed_rescale", 2.0, "rope_dinov3_rescale", 2, 0),
	}),
	finish: func(m *foreign) error {
		query, key, value := m.entries["query_bias"], m.entries["key_bias"], m.entries["value_bias"]
		switch {
		case query != value || query == false && key == true:
			return errors.Errorf("query_bias %v, key_bias %v and value_bias %v: this library has none, all, or all but the "+
				"key's",
				query, key, value)
		case query == false:
			m.config.QKVBias = "none"
		case key == false:
			m.config.QKVBias = "qv"
		}
		return nil
	},
	bases: []string{""}, block: "layer.%d.",
	names: names{
		classPath: "embeddings.cls_token", registersPath: "embeddings.register_tokens",
		patchPath: "embeddings.patch_embeddings.", "norm/": "norm.",
		queryPath: "attention.q_proj.", keyPath: "attention.k_proj.", valuePath: "attention.v_proj.",
		projPath: "attention.o_proj.", blockPath + "norm1/": "norm1.", blockPath + "norm2/": "norm2.",
		scale1Path: "layer_scale1.lambda1", scale2Path: "layer_scale2.lambda1",
		gatePath: "mlp.gate_proj.", hiddenPath: "mlp.up_proj.", outputPath: "mlp.down_proj.",
	},
	current: &spelling{block: "model.layer.%d."},
	extra:   []string{"embeddings.mask_token"}, mask: 3, resample: resampleHF,
}

// dinov3Bias is one of three fields that the family's finish reads.
func dinov3Bias(key string, byDefault, noKey bool) field {
	f := boolean(key, byDefault, false)
	f.get = func(m *foreign) any { return m.config.QKVBias == "" || noKey && m.config.QKVBias == "qv" }
	return f
}
