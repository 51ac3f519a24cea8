// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"slices"
)

// timm's Beit: BEiT and BEiT v2.
var timmBeit = family{
	format: formatTimm, class: "Beit",
	fields: slices.Concat(slices.DeleteFunc(timmSizes("", "avg"), func(f field) bool {
		return slices.Contains([]string{"", "class_token", "no_embed_class"}, f.key)
	}), []field{
		qkvBias("qkv_bias", true, "qv"),
		{key: "use_fc_norm", set: setFCNorm,
			get: func(m *foreign) any { return m.config.FinalNorm == "pooled" }},
		{key: "use_abs_pos_emb", byDefault: true, get: func(m *foreign) any { return owns(m.config, positionPath) }},
		{key: "use_rel_pos_bias", byDefault: false, get: func(m *foreign) any { return owns(m.config, relativePath) }},
		{key: "mlp_ratio", byDefault: 4.0, set: func(m *foreign, value any) error {
			ratio, err := number(value)
			m.config.MLPDim = hidden(m.config.Width, ratio)
			return err
		}, get: func(m *foreign) any { return ratioOf(m.config.Width, m.config.MLPDim) }},
		only("use_shared_rel_pos_bias", false, false), only("scale_mlp", false, false), only("swiglu_mlp", false, false),
	}),
	finish: func(m *foreign) error {
		m.config.ClassToken = m.config.Pool != "class"
		m.config.Position = positionsOf(m.entries["use_abs_pos_emb"] == true,
			map[bool]string{true: "relative-table"}[m.entries["use_rel_pos_bias"] == true])
		return nil
	},
	bases: []string{""}, block: "blocks.%d.",
	names: joined(timmNames, names{scale1Path: "gamma_1", scale2Path: "gamma_2",
		relativePath: "blocks.%d.attn.relative_position_bias_table"}),
	vary: func(m *foreign, n names) {
		timmVariants(m, n)
		evaBiases(m, n)
	},
	extra: []string{"*.relative_position_index"}, kind: resampleTimm,
}
