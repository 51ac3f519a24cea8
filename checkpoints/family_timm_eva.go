// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/vit"
)

// timm's Eva: EVA, EVA-02, DINOv3, Perception Encoder, rope-vit.
var timmEva = family{
	format: formatTimm, class: "Eva",
	fields: slices.Concat(replaced(timmSizes("num_reg_tokens", "avg"), evaScale()), []field{
		{key: "qkv_bias", byDefault: true, get: func(m *foreign) any { return m.config.QKVBias != "none" }},
		{key: "attn_type", byDefault: "eva", set: func(m *foreign, value any) error {
			switch {
			case m.entries["qkv_bias"] != true:
				m.config.QKVBias = "none"
			case value == "eva":
				m.config.QKVBias = "qv"
			case value != "rope":
				return refuse(value, `"eva" or "rope"`)
			}
			return nil
		}, get: func(m *foreign) any {
			if m.config.QKVBias == "" {
				return "rope"
			}
			return "eva"
		}},
		{key: "qkv_fused", byDefault: true, get: func(*foreign) any { return true }},
		boolean("qk_norm", false, false, func(c *vit.Config) *bool { return &c.QKNorm }),
		boolean("scale_attn_inner", false, false, func(c *vit.Config) *bool { return &c.ContextNorm }),
		boolean("scale_mlp", false, false, func(c *vit.Config) *bool { return &c.MLPNorm }),
		boolean("swiglu_mlp", false, false, func(c *vit.Config) *bool { return &c.SwiGLU }),
		mlpRatio,
		{key: "swiglu_align_to", byDefault: 0.0, set: func(m *foreign, value any) error {
			align, err := whole(value, 0)
			if c := &m.config; align > 0 && c.SwiGLU {
				c.MLPDim = (c.MLPDim + align - 1) / align * align
			}
			return err
		}, get: func(m *foreign) any { return when(m.config.SwiGLU, 1) }},
		boolean("use_pre_transformer_norm", false, false, func(c *vit.Config) *bool { return &c.PreNorm }),
		fcNorm("use_fc_norm"),
		{key: "use_post_transformer_norm", set: func(m *foreign, value any) error { // null is the opposite of use_fc_norm
			switch pooled := m.config.FinalNorm == "pooled"; {
			case pooled && value == true:
				return refuse(value, "false with use_fc_norm: this library has one last norm")
			case !pooled && value != nil && value != true:
				m.config.FinalNorm = "none"
			}
			return nil
		}, get: func(m *foreign) any { return m.config.FinalNorm == "" }},
		{key: "use_abs_pos_emb", byDefault: true, get: func(m *foreign) any { return owns(m.config, positionPath) }},
		{key: "use_rot_pos_emb", byDefault: false, get: func(m *foreign) any { return ropeType(m.config) != "" }},
		{key: "rope_type", byDefault: "cat", set: evaPosition,
			get: func(m *foreign) any { return cmp.Or(ropeType(m.config), "cat") }},
		{key: "rope_temperature", byDefault: 10000.0, set: func(m *foreign, value any) error {
			theta, err := number(value)
			if ours, turns := evaThetas[ropeType(m.config)]; turns && theta != float64(ours) {
				m.params["rope_theta"] = theta
			}
			return err
		}, get: func(m *foreign) any {
			return cmp.Or(evaParam(m, "rope_theta"), evaThetas[ropeType(m.config)], 10000)
		}},
		{key: "rope_grid_offset", byDefault: 0.0, set: func(m *foreign, value any) error {
			switch kind := ropeType(m.config); {
			case kind == "dinov3" && value != 0.0:
				return refuse(value, "0 of dinov3")
			case kind != "cat":
				return nil
			}
			offset, err := number(value)
			if offset != 0 {
				m.params["rope_axial_offset"] = offset
			}
			return err
		}, get: func(m *foreign) any { return evaParam(m, "rope_axial_offset") }},
		{key: "rope_grid_indexing", byDefault: "ij", set: func(m *foreign, value any) error {
			switch kind := ropeType(m.config); {
			case kind == "cat" && value == "ij":
				m.params["rope_axial_first"] = "row"
			case kind == "cat" && value != "xy", kind == "mixed" && value != "xy", kind == "dinov3" && value != "ij":
				return refuse(value, `"ij" of cat and dinov3, "xy" of cat and mixed`)
			}
			return nil
		}, get: func(m *foreign) any {
			if m.params["rope_axial_first"] != "row" && ropeType(m.config) != "dinov3" {
				return "xy"
			}
			return "ij"
		}},
		{key: "ref_feat_shape", set: func(m *foreign, value any) error {
			if value == nil || ropeType(m.config) != "cat" {
				return nil
			}
			grid, err := imageSize(value)
			m.params["rope_axial_rows"], m.params["rope_axial_cols"] = float64(grid[0]), float64(grid[1])
			return err
		}, get: func(m *foreign) any {
			rows, cols := evaParam(m, "rope_axial_rows"), evaParam(m, "rope_axial_cols")
			return orNil(rows != 0 && cols != 0, []int{int(rows), int(cols)})
		}},
		{key: "rope_rotate_half", byDefault: false, set: func(m *foreign, value any) error {
			if kind := ropeType(m.config); kind != "" && (value == true) != (kind == "dinov3") {
				return refuse(value, "true of dinov3, false of others: this library has no such pairs of channels")
			}
			return nil
		}, get: func(m *foreign) any { return ropeType(m.config) == "dinov3" }},
		evaAugmentation("rope_shift_coords", "rope_dinov3_shift", 0),
		evaAugmentation("rope_jitter_coords", "rope_dinov3_jitter", 0),
		evaAugmentation("rope_rescale_coords", "rope_dinov3_rescale", 2),
		{key: "attn_pool_num_heads", set: func(m *foreign, value any) (err error) {
			if m.config.Pool == "map" && value != nil {
				m.config.PoolHeads, err = whole(value, 1)
			}
			return err
		}, get: func(m *foreign) any { return orNil(m.config.PoolHeads != 0, m.config.PoolHeads) }},
		{key: "attn_pool_mlp_ratio", set: func(m *foreign, value any) error {
			c := &m.config
			if c.Pool != "map" {
				return nil
			}
			c.PoolPrefix = c.Prefix() > 0 // it pools all tokens
			ratio, err := number(cmp.Or(value, m.entries["mlp_ratio"]))
			if c.PoolMLPDim = hidden(c.Width, ratio); err == nil && c.PoolMLPDim < 1 {
				err = refuse(value, "hidden units")
			}
			return err
		}, get: func(m *foreign) any {
			return orNil(m.config.Pool == "map", ratioOf(m.config.Width, poolMLPDim(m.config)))
		}},
		only("num_kv_heads", nil, nil), only("attn_only_layer_scale", false, false), only("use_post_norm", false, false),
		only("dynamic_img_pad", false, false), {key: "rope_mrope_section"},
	}),
	bases: []string{""}, block: "blocks.%d.",
	names: joined(timmNames, names{registersPath: "reg_token", scale1Path: "gamma_1", scale2Path: "gamma_2",
		mixedPath: "rope.freqs"}),
	vary: func(m *foreign, n names) {
		timmVariants(m, n)
		evaBiases(m, n)
	},
	extra: []string{"rope.periods", "rope.inv_freq"}, resample: resampleTimm,
}

// evaScale is the initial value of the factors that Eva has unless it is null. 0 means none here, so it is read as the
// least number above.
func evaScale() field {
	f := layerScale("init_values", nil, nil, true)
	set := f.set
	f.set = func(m *foreign, value any) error {
		if value == 0.0 {
			value = math.SmallestNonzeroFloat32
		}
		return set(m, value)
	}
	return f
}

// evaBiases names the biases of query and value, which BEiT's attention stores separately from the stacked weights.
func evaBiases(m *foreign, n names) {
	switch {
	case m.entries["qkv_fused"] == false:
		n[queryPath], n[keyPath], n[valuePath] = "attn.q_proj.", "attn.k_proj.", "attn.v_proj."
	case m.config.QKVBias == "qv":
		n[queryPath+"biases"], n[valuePath+"biases"] = "attn.q_bias", "attn.v_bias"
	}
}

// ropeTypes are timm's names of our rotary encodings.
var ropeTypes = map[string]string{"rope-axial": "cat", "rope-mixed": "mixed", "rope-dinov3": "dinov3"}

// ropeType returns timm's name of a model's rotary encoding, "" if timm has none.
func ropeType(c vit.Config) string {
	_, last, found := strings.Cut(c.Position, "+")
	if !found {
		last = c.Position
	}
	return ropeTypes[last]
}

// evaParam returns a hyperparameter as a number, 0 if it is not set.
func evaParam(m *foreign, name string) fraction {
	x, _ := m.params[name].(float64)
	return fraction(x)
}

// evaThetas are the defaults of this library, by timm's names of the encodings.
var evaThetas = map[string]fraction{"cat": 100, "mixed": 10, "dinov3": 100}

// evaPosition sets the encoding from three fields.
func evaPosition(m *foreign, value any) error {
	kind := ""
	for ours, theirs := range ropeTypes {
		if theirs == value && m.entries["use_rot_pos_emb"] == true {
			kind = ours
		}
	}
	if kind == "" && m.entries["use_rot_pos_emb"] == true {
		return refuse(value, `"cat", "mixed" or "dinov3"`)
	}
	m.config.Position = positionsOf(m.entries["use_abs_pos_emb"] == true, kind)
	return nil
}

// evaAugmentation is an augmentation of coordinates in training, which only rope-dinov3 has here.
func evaAugmentation(key, name string, ours float64) field {
	f := rotation(key, nil, name, ours, 0)
	get := f.get
	f.get = func(m *foreign) any { return orNil(ropeType(m.config) == "dinov3", get(m)) }
	return f
}

// timm's Beit: BEiT and BEiT v2.
var timmBeit = family{
	format: formatTimm, class: "Beit",
	fields: slices.Concat(without(timmSizes("", "avg"), "", "class_token", "no_embed_class"), []field{
		qkvBias("qkv_bias", true, "qv"),
		fcNorm("use_fc_norm"), mlpRatio, only("use_shared_rel_pos_bias", false, false), only("scale_mlp", false, false),
		only("swiglu_mlp", false, false),
	}, tables("use_abs_pos_emb", true, "use_rel_pos_bias")),
	finish: func(m *foreign) error { m.config.ClassToken = m.config.Pool != "class"; return nil },
	bases:  []string{""}, block: "blocks.%d.",
	names: joined(timmNames, names{scale1Path: "gamma_1", scale2Path: "gamma_2",
		relativePath: "blocks.%d.attn.relative_position_bias_table"}),
	vary: func(m *foreign, n names) {
		timmVariants(m, n)
		evaBiases(m, n)
	},
	extra: []string{"*.relative_position_index"}, resample: resampleTimm,
}
