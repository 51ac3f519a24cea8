// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/wepe-go/wepe/vit"
)

// timm's Eva: EVA, EVA-02, DINOv3, Perception Encoder, rope-vit.
var timmEva = family{
	format: formatTimm, class: "Eva", finish: finishEva,
	fields: slices.Concat(replaced(timmSizes("num_reg_tokens", "avg"), evaScale()), []field{
		{key: "attn_type", byDefault: "eva", get: func(m *foreign) any {
			if m.config.QKVBias == "" {
				return "rope"
			}
			return "eva"
		}},
		{key: "qkv_bias", byDefault: true, get: func(m *foreign) any { return m.config.QKVBias != "none" }},
		{key: "qkv_fused", byDefault: true, get: func(*foreign) any { return true }},
		boolean("qk_norm", false, false, func(c *vit.Config) *bool { return &c.QKNorm }),
		boolean("scale_attn_inner", false, false, func(c *vit.Config) *bool { return &c.ContextNorm }),
		boolean("scale_mlp", false, false, func(c *vit.Config) *bool { return &c.MLPNorm }),
		boolean("swiglu_mlp", false, false, func(c *vit.Config) *bool { return &c.SwiGLU }),
		{key: "swiglu_align_to", byDefault: 0.0, get: func(m *foreign) any { return when(m.config.SwiGLU, 1) }},
		{key: "mlp_ratio", byDefault: 4.0, get: func(m *foreign) any { return ratioOf(m.config.Width, m.config.MLPDim) }},
		boolean("use_pre_transformer_norm", false, false, func(c *vit.Config) *bool { return &c.PreNorm }),
		{key: "use_fc_norm", get: func(m *foreign) any { return m.config.FinalNorm == "pooled" }},
		{key: "use_post_transformer_norm", get: func(m *foreign) any { return m.config.FinalNorm == "" }},
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
		{key: "rope_grid_offset", byDefault: 0.0, get: func(m *foreign) any { return evaParam(m, "rope_axial_offset") }},
		{key: "rope_grid_indexing", byDefault: "ij", get: func(m *foreign) any {
			if m.params["rope_axial_first"] != "row" && ropeType(m.config) != "dinov3" {
				return "xy"
			}
			return "ij"
		}},
		{key: "ref_feat_shape", get: func(m *foreign) any {
			rows, cols := evaParam(m, "rope_axial_rows"), evaParam(m, "rope_axial_cols")
			return orNil(rows != 0 && cols != 0, []int{int(rows), int(cols)})
		}},
		{key: "rope_rotate_half", byDefault: false, get: func(m *foreign) any { return ropeType(m.config) == "dinov3" }},
		evaAugmentation("rope_shift_coords", "rope_dinov3_shift", 0),
		evaAugmentation("rope_jitter_coords", "rope_dinov3_jitter", 0),
		evaAugmentation("rope_rescale_coords", "rope_dinov3_rescale", 2),
		{key: "attn_pool_num_heads", get: func(m *foreign) any { return orNil(m.config.PoolHeads != 0, m.config.PoolHeads) }},
		{key: "attn_pool_mlp_ratio", get: func(m *foreign) any {
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
	extra: []string{"rope.periods", "rope.inv_freq"}, kind: resampleTimm,
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

// finishEva sets what depends on several arguments.
func finishEva(m *foreign) error {
	c := &m.config
	ratio, err := number(m.entries["mlp_ratio"])
	if err != nil {
		return about("mlp_ratio", err)
	}
	c.MLPDim = hidden(c.Width, ratio)
	if align, err := whole(m.entries["swiglu_align_to"], 0); err != nil {
		return about("swiglu_align_to", err)
	} else if align > 0 && c.SwiGLU {
		c.MLPDim = (c.MLPDim + align - 1) / align * align
	}
	switch {
	case m.entries["qkv_bias"] != true:
		c.QKVBias = "none"
	case m.entries["attn_type"] == "eva":
		c.QKVBias = "qv"
	case m.entries["attn_type"] != "rope":
		return about("attn_type", refuse(m.entries["attn_type"], `"eva" or "rope"`))
	}
	if err := evaNorms(m); err != nil {
		return err
	}
	if c.Pool == "map" { // pools all tokens
		c.PoolPrefix = c.Prefix() > 0
		if m.entries["attn_pool_num_heads"] != nil {
			if c.PoolHeads, err = whole(m.entries["attn_pool_num_heads"], 1); err != nil {
				return about("attn_pool_num_heads", err)
			}
		}
		if m.entries["attn_pool_mlp_ratio"] != nil {
			if ratio, err = number(m.entries["attn_pool_mlp_ratio"]); err != nil {
				return about("attn_pool_mlp_ratio", err)
			}
		}
		if c.PoolMLPDim = hidden(c.Width, ratio); c.PoolMLPDim < 1 {
			return errors.New("attn_pool_mlp_ratio: no hidden units")
		}
	}
	return evaPositions(m)
}

// evaNorms sets the position of the last norm from two arguments, whose defaults depend on each other and on the
// pooling.
func evaNorms(m *foreign) error {
	pooled, tokens := m.entries["use_fc_norm"], m.entries["use_post_transformer_norm"]
	if pooled == nil {
		pooled = m.config.Pool == "mean"
	}
	if tokens == nil {
		tokens = pooled != true
	}
	switch {
	case pooled == true && tokens == true:
		return errors.New("use_fc_norm and use_post_transformer_norm: this library has one last norm")
	case pooled == true:
		m.config.FinalNorm = "pooled"
	case tokens != true:
		m.config.FinalNorm = "none"
	}
	return nil
}

// evaPositions refuses combinations of timm's options that no encoding here has.
func evaPositions(m *foreign) error {
	kind := ropeType(m.config)
	order, offset := m.entries["rope_grid_indexing"], m.entries["rope_grid_offset"]
	half := m.entries["rope_rotate_half"] == true
	switch {
	case kind != "" && half != (kind == "dinov3"):
		return errors.Errorf("rope_rotate_half = %v: this library has no such pairs of channels in rope_type %q", half, kind)
	case kind == "cat":
		return evaAxial(m)
	case kind == "mixed" && order != "xy":
		return about("rope_grid_indexing", refuse(order, `"xy"`))
	case kind == "dinov3" && (offset != 0.0 || order != "ij"):
		return errors.Errorf("rope_grid_offset = %v, rope_grid_indexing = %v: want 0 and ij of dinov3", offset, order)
	}
	return nil
}

// evaAxial reads the hyperparameters of rope-axial.
func evaAxial(m *foreign) error {
	switch m.entries["rope_grid_indexing"] {
	case "ij":
		m.params["rope_axial_first"] = "row"
	case "xy":
	default:
		return about("rope_grid_indexing", refuse(m.entries["rope_grid_indexing"], `"ij" or "xy"`))
	}
	offset, err := number(m.entries["rope_grid_offset"])
	if err != nil {
		return about("rope_grid_offset", err)
	}
	if offset != 0 {
		m.params["rope_axial_offset"] = offset
	}
	if m.entries["ref_feat_shape"] != nil {
		grid, err := imageSize(m.entries["ref_feat_shape"])
		if err != nil {
			return about("ref_feat_shape", err)
		}
		m.params["rope_axial_rows"], m.params["rope_axial_cols"] = float64(grid[0]), float64(grid[1])
	}
	return nil
}

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
