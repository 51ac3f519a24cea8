// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"slices"

	"github.com/wepe-go/wepe/vit"
)

// BEiT and BEiT v2 in transformers: no bias of the keys, relative biases in every block, absolute positions or both.
var hfBEiT = family{
	format: formatHF, class: "BeitForImageClassification", types: []string{"beit"},
	fields: slices.Concat(hfSizes(768, 12, 12, 3072, 16, 1e-12, hfActivation("gelu")), hfDropouts, []field{
		{key: "use_absolute_position_embeddings", byDefault: false,
			get: func(m *foreign) any { return m.config.Encoding()[0].Name == "learned" }},
		{key: "use_relative_position_bias", byDefault: false,
			get: func(m *foreign) any { return owns(m.config, relativePath) }},
		only("use_shared_relative_position_bias", false, false),
		layerScale("layer_scale_init_value", 0.1, fraction(0), true),
		choice("use_mean_pooling", true, func(c *vit.Config) *string { return &c.Pool }, words{true, "mean"},
			words{false, "class"}),
		{key: "qkv_bias", byDefault: true},
	}),
	finish: func(m *foreign) error {
		c := &m.config
		if c.QKVBias = "qv"; c.Pool == "mean" {
			c.ClassToken, c.FinalNorm = true, "pooled"
		}
		c.Position = positionsOf(m.entries["use_absolute_position_embeddings"] == true,
			map[bool]string{true: "relative-table"}[m.entries["use_relative_position_bias"] == true])
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
	extra: []string{"embeddings.mask_token", "*.relative_position_index"}, current: hfCurrent, kind: resampleHF,
	tower: "BeitModel", cannot: beitCannot,
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

// beitCannot refuses tables that transformers permutes: it reads them as [2·cols-1, 2·rows-1] and resamples that to
// [2·rows-1, 2·cols-1], also in its own files.
func beitCannot(c vit.Config, _ map[string]any) error {
	if owns(c, relativePath) {
		return squareAlone("the relative positions of Beit")(c, nil)
	}
	return nil
}
