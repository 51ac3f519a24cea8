// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// args are fields of a config.json, in pairs of key and value.
func args(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return out
}

// object parses the fields of a config.json.
func object(t *testing.T, text string) strictjson.Object {
	t.Helper()
	return gomlxtest.Must(strictjson.ParseObject([]byte(text)))(t)
}

// testdata/transformers_defaults.json is transformers 5.23.0's CONFIG_MAPPING[type]().to_dict() for each type, without
// entries that no family here has; architectures.json has the arguments of timm's classes. A config.json may omit any.
func TestFields_DefaultsAreTheSoftwares(t *testing.T) {
	var transformers map[string]map[string]any
	var timm struct{ Classes map[string]map[string]any }
	for file, into := range map[string]any{"testdata/transformers_defaults.json": &transformers,
		"architectures.json": &timm} {
		gomlxtest.NoError(t, json.Unmarshal(gomlxtest.Must(os.ReadFile(file))(t), into))
	}
	seen := map[string]int{}
	for _, f := range families {
		defaults := timm.Classes[f.class]
		if f.format == formatHF {
			defaults = transformers[f.types[0]+map[bool]string{true: "_vision_model"}[f.inner != ""]]
		}
		for _, field := range f.fields {
			want, known := defaults[field.key]
			if f.format == formatTimm && field.get != nil && !known {
				t.Errorf("%s has no argument %q", f.class, field.key) // Python refuses it
			}
			if !known || field.byDefault == nil || f.format == formatTimm && want == nil { // null: a default of its own
				continue
			}
			seen[f.format]++
			got, err := json.Marshal(field.byDefault)
			if wanted, _ := json.Marshal(want); err != nil || string(got) != string(wanted) {
				t.Errorf("%s: %s is %s by default, in %s %s", f.class, field.key, got, f.format, wanted)
			}
		}
	}
	if seen[formatHF] < 120 || seen[formatTimm] < 60 {
		t.Errorf("compared %v", seen)
	}
	got := gomlxtest.Must(hfViT.read(args("hidden_act", nil, "hidden_size", nil, "image_size", nil), true))(t)
	want := gomlxtest.Resolved(vit.Config{ImageRows: 224, ImageCols: 224, PatchSize: 16, Channels: 3, Width: 768,
		Depth: 12, Heads: 12,
		MLPDim: 3072, Classes: 1, Epsilon: 1e-12, Position: "learned"}) // transformers' ViTConfig
	if got.config != want {
		t.Errorf("null is read as %+v, want %+v", got.config, want)
	}
}

// Values at the ends of their ranges, and what the network here or the software does not have.
func TestFields_Refusals(t *testing.T) {
	const (
		packed = `"mlp_layer":"` + packedGLU + `"`
		silu   = `"act_layer":"silu",`
		rotary = `"use_rot_pos_emb":true,`
		v3     = rotary + `"rope_type":"dinov3",`
		pooled = `"global_pool":"map",`
	)
	for _, c := range []struct {
		family *family
		names  string // in the error, empty for none
		args   string // separated by bars
	}{
		{&hfViT, "", `"hidden_size":12|"layer_norm_eps":1|"layer_norm_eps":1e-30|"patch_size":[8,8]`},
		{&hfViT, "", `"image_size":[16384,16]|"image_size":[4,32,48]`}, {&hfViT, "hidden_size is 0", `"hidden_size":0`},
		{&hfViT, "hidden_size", `"hidden_size":16777217|"hidden_size":1.5|"hidden_size":"7"`},
		{&hfViT, "layer_norm_eps", `"layer_norm_eps":1.01|"layer_norm_eps":0`},
		{&hfViT, "patch_size", `"patch_size":[3,5]|"patch_size":[8,8,8]|"patch_size":0|"patch_size":[[16],[16]]`},
		{&hfViT, "image_size", `"image_size":[16,16385]|"image_size":[0,32]|"image_size":[3]|"image_size":[]`},
		{&hfViT, "qkv_bias", `"qkv_bias":1`}, {&hfViT, "hidden_act", `"hidden_act":"relu"`},
		{&hfViT, "intermediate_size", `"intermediate_size":0`}, {&hfCLIP, "attention_bias", `"attention_bias":false`},
		{&hfDINOv2, "layerscale_value", `"layerscale_value":null|"layerscale_value":0`},
		{&hfDINOv2, "mlp_ratio", `"mlp_ratio":"x"`}, {&hfDINOv3, "num_register_tokens", `"num_register_tokens":-1`},
		{&hfDINOv3, "query_bias", `"query_bias":[]`}, {&hfDINOv3, "rope_theta", `"rope_theta":"x"`},
		{&hfDINOv3, "", `"use_gated_mlp":true,"hidden_act":"silu"|"query_bias":true,"key_bias":true,"value_bias":true`},
		{&hfDINOv3, "hidden_act", `"use_gated_mlp":true,"hidden_act":"gelu"`},
		{&hfDINOv3, "value_bias", `"query_bias":true,"key_bias":false,"value_bias":false`},
		{&hfDINOv3, "key_bias", `"query_bias":false,"key_bias":true,"value_bias":false`},

		{&timmBeit, "mlp_ratio", `"mlp_ratio":"x"`}, {&timmDistilled, "mlp_layer", `"mlp_layer":"x"`},
		{&timmDistilled, "reg_tokens", `"reg_tokens":1`}, {&timmViT, "class_token", `"class_token":false`},
		{&timmViT, "", `"init_values":0|"init_values":null|` + silu + packed},
		{&timmViT, "", `"mlp_ratio":0.001953125`}, // one hidden unit
		{&timmViT, "", silu + `"mlp_layer":"` + splitGLU + `"|"embed_norm_layer":"LayerNorm(eps=1e-06)"`},
		{&timmViT, "qk_norm", `"qk_norm":"yes"`}, {&timmViT, "block_fn", `"block_fn":"x"`},
		{&timmViT, "init_values", `"init_values":"x"`}, {&timmViT, "norm_layer", `"norm_layer":"x"`},
		{&timmViT, "mlp_ratio", `"mlp_ratio":"x"`}, {&timmViT, "MLP", `"mlp_ratio":0.001`},
		{&timmViT, "act_layer", `"act_layer":"relu"|` + packed + "|" + pooled + silu + packed},
		{&timmViT, "mlp_layer", `"mlp_layer":"x"`}, {&timmViT, "embed_norm_layer",
			`"embed_norm_layer":"LayerNorm(eps=1e-05)"`},

		{&timmEva, "mlp_ratio", `"mlp_ratio":"x"`}, {&timmEva, "swiglu_align_to", `"swiglu_align_to":-1`},
		{&timmEva, "num_reg_tokens", `"num_reg_tokens":-1`}, {&timmEva, "attn_type", `"attn_type":"x"`},
		{&timmEva, "patch_size", `"patch_size":[8]`},
		{&timmEva, "use_fc_norm", `"use_fc_norm":true,"use_post_transformer_norm":true`},
		{&timmEva, "", `"attn_pool_num_heads":0|"global_pool":"map"`}, // not read by another pooling
		{&timmEva, "attn_pool_num_heads", pooled + `"attn_pool_num_heads":0`},
		{&timmEva, "attn_pool_mlp_ratio", pooled + `"attn_pool_mlp_ratio":"x"|` + pooled + `"attn_pool_mlp_ratio":0.001`},
		{&timmEva, "", `"use_rot_pos_emb":true|"rope_type":"x"|"rope_rotate_half":true`}, // without rotation
		{&timmEva, "", rotary + `"rope_type":"mixed","rope_grid_indexing":"xy"|` + v3 + `"rope_rotate_half":true`},
		{&timmEva, "rope_type", rotary + `"rope_type":"x"`}, {&timmEva, "rope_temperature", rotary +
			`"rope_temperature":"x"`},
		{&timmEva, "rope_grid_indexing", rotary + `"rope_grid_indexing":"x"|` + rotary + `"rope_type":"mixed"|` + v3 +
			`"rope_rotate_half":true,"rope_grid_indexing":"xy"`},
		{&timmEva, "rope_grid_offset", rotary + `"rope_grid_offset":"x"|` + v3 +
			`"rope_rotate_half":true,"rope_grid_offset":0.5`},
		{&timmEva, "ref_feat_shape", rotary + `"ref_feat_shape":"x"`},
		{&timmEva, "rope_rotate_half", rotary + `"rope_rotate_half":true|` + v3 + `"rope_rotate_half":false`},
	} {
		for text := range strings.SplitSeq(c.args, "|") {
			_, err := c.family.read(gomlxtest.Must(values(object(t, "{"+text+"}")))(t), true)
			if (err == nil) != (c.names == "") || err != nil && !strings.Contains(err.Error(), c.names) {
				t.Errorf("%s {%s}: %v, want an error that names %q", c.family.class, text, err, c.names)
			}
		}
	}
	for head, ok := range map[bool]bool{true: true, false: false} { // a classifier pools by the mean
		if _, err := hfSigLIP.read(args("vision_use_head", false), head); (err == nil) != ok {
			t.Errorf("SigLIP with a classifier %v: %v", head, err)
		}
	}
	for class, has := range map[*family]bool{&timmEva: true, &timmViT: false, &timmBeit: false} { // timm 1.0: is not None
		m := gomlxtest.Must(class.read(args("init_values", 0.0), true))(t)
		if got := m.config.LayerScale > 0; got != has {
			t.Errorf("%s: factors %v", class.class, got)
		}
	}
	if size, err := imageSize([]any{4.0, 3.0, 5.0}); err != nil || size != (gridSize{3, 5}) { // channels first
		t.Errorf("%v, %v", size, err)
	}
}

// transformers reads rope_theta: 100 as an integer and refuses it.
func TestFraction_HasAPointOrAnExponent(t *testing.T) {
	for x, want := range map[fraction]string{100: "100.0", 0: "0.0", 0.5: "0.5", 1e-12: "1e-12", 1e30: "1e+30"} {
		if got := string(gomlxtest.Must(json.Marshal(x))(t)); got != want {
			t.Errorf("%g is written %s, want %s", float64(x), got, want)
		}
	}
}

// timm truncates width·ratio. Dinov2SwiGLUFFN: int(hidden·2/3), then (hidden + 7) // 8 * 8 (modeling_dinov2.py of
// transformers). timm's SwiGLU of Eva rounds up (layers/mlp.py).
func TestHiddenUnits_AreTheSoftwares(t *testing.T) {
	for width := 1; width < 100; width++ {
		for units := 1; units < 100; units++ {
			if got := int(float64(width) * float64(ratioOf(width, units))); got != units {
				t.Fatalf("width %d, %d hidden units: timm computes %d", width, units, got)
			}
		}
	}
	for ratio := range 30 {
		for _, width := range []int{8, 13, 48} {
			want := int(math.Ceil(math.Floor(float64(width*ratio)*2/3)/8)) * 8
			if got := dinov2Hidden(vit.Config{Width: width, SwiGLU: true}, float64(ratio)); got != want {
				t.Errorf("width %d, ratio %d: %d units, want %d", width, ratio, got, want)
			}
		}
	}
	m := gomlxtest.Must(timmEva.read(args("embed_dim", 24.0, "num_heads", 2.0, "swiglu_mlp", true, "swiglu_align_to", 8.0,
		"mlp_ratio", 3.1), true))(t)
	if m.config.MLPDim != 80 || hidden(3, 1e300) != 1<<30 { // 24·3.1 is 74
		t.Errorf("%d hidden units", m.config.MLPDim)
	}
	// DINOv2 giant: 8192 units in fc1, for the gate and 4096 hidden units (GluMlp halves mlp_ratio·embed_dim).
	giant := gomlxtest.Resolved(vit.Config{ImageRows: 518, ImageCols: 518, PatchSize: 14, Width: 1536, Depth: 40,
		Heads: 24, MLPDim: 4096, Classes: 1000, SwiGLU: true, LayerScale: 1e-5, Position: "learned"})
	_, out, err := forExport(formatTimm, giant, true, nil)
	if ratio, _ := out["mlp_ratio"].(fraction); err != nil || out["mlp_layer"] != packedGLU || int(1536*float64(ratio)) !=
		8192 {
		t.Errorf("%v, DINOv2 giant is written as %v", err, out)
	}
}

// What is read from fields is written again: the biases of DINOv3 (three switches, here one word), theta, the last norm
// of timm (vision_transformer.py: use_fc_norm = global_pool == 'avg' if fc_norm is None; eva.py: likewise, and
// use_post_transformer_norm is its opposite), norms, activations and augmentations. Of Eva's rotation only what differs
// from this library's default is a hyperparameter; timm's own default theta, 10000, is not this library's. Without an
// entry timm's models have no augmentation of positions; ours have DINOv3's.
func TestFields_AreReadAndWritten(t *testing.T) {
	norm := func(m *foreign) string { return m.config.FinalNorm }
	bias := func(m *foreign) string { return m.config.QKVBias }
	eps := func(m *foreign) string { return fmt.Sprint(m.config.Epsilon, m.config.RMSNorm) }
	rotation := func(m *foreign) string { return fmt.Sprint(m.config.Position, " ", m.params) }
	const (
		rotary = `"use_rot_pos_emb":true,"use_abs_pos_emb":false`
		axial  = rotary + `,"rope_temperature":100`
		mixed  = rotary + `,"rope_type":"mixed","rope_grid_indexing":"xy","rope_temperature":`
		v3     = axial + `,"rope_type":"dinov3","rope_rotate_half":true,"rope_rescale_coords":`
	)
	for _, c := range []struct {
		family  *family
		args    string
		of      func(*foreign) string
		want    string
		written string // where it differs from args
	}{
		{&hfDINOv3, `"query_bias":true,"key_bias":true,"value_bias":true`, bias, "", ""},
		{&hfDINOv3, `"query_bias":true,"key_bias":false,"value_bias":true`, bias, "qv", ""},
		{&hfDINOv3, `"query_bias":false,"key_bias":false,"value_bias":false`, bias, "none", ""},
		{&hfDINOv3, `"use_gated_mlp":true,"hidden_act":"silu"`,
			func(m *foreign) string { return fmt.Sprint(m.config.SwiGLU) }, "true", ""},
		{&timmViT, `"global_pool":"token","fc_norm":null`, norm, "", `"fc_norm":false`},
		{&timmViT, `"global_pool":"avg","fc_norm":null`, norm, "pooled", `"fc_norm":true`},
		{&timmViT, `"global_pool":"token","fc_norm":true`, norm, "pooled", ""},
		{&timmViT, `"global_pool":"avg","fc_norm":false`, norm, "", ""}, {&timmViT, `"final_norm":false`, norm, "none", ""},
		{&timmEva, `"global_pool":"avg"`, norm, "pooled", `"use_fc_norm":true,"use_post_transformer_norm":false`},
		{&timmEva, `"global_pool":"token"`, norm, "", `"use_fc_norm":false,"use_post_transformer_norm":true`},
		{&timmEva, `"global_pool":"avg","use_fc_norm":false`, norm, "", `"use_post_transformer_norm":true`},
		{&timmEva, `"global_pool":"token","use_fc_norm":true`, norm, "pooled", ""},
		{&timmEva, `"global_pool":"token","use_post_transformer_norm":false`, norm, "none", ""},
		{&timmEva, `"global_pool":"avg","use_fc_norm":false,"use_post_transformer_norm":false`, norm, "none", ""},
		{&timmViT, `"norm_layer":"LayerNorm"`, eps, "1e-06 false", `"norm_layer":"LayerNorm(eps=1e-06)"`},
		{&timmViT, `"norm_layer":"LayerNorm(eps=1e-05)"`, eps, "1e-05 false", ""},
		{&timmViT, `"norm_layer":"rmsnorm"`, eps, "1e-06 true", `"norm_layer":"RmsNorm(eps=1e-06)"`},
		{&timmViT, `"norm_layer":"RmsNorm(eps=1e-05)"`, eps, "1e-05 true", ""},

		{&timmEva, `"use_abs_pos_emb":false`, rotation, "none map[]", ""}, {&timmEva, ``, rotation, "learned map[]", ""},
		{&timmEva, axial, rotation, "rope-axial map[rope_axial_first:row]", ""},
		{&timmEva, `"use_rot_pos_emb":true,"use_abs_pos_emb":true,"rope_temperature":100`, rotation,
			"learned+rope-axial map[rope_axial_first:row]", ""},
		{&timmEva, axial + `,"rope_grid_indexing":"xy"`, rotation, "rope-axial map[]", ""},
		{&timmEva, rotary + `,"rope_temperature":10000`, rotation,
			"rope-axial map[rope_axial_first:row rope_theta:10000]", ""},
		{&timmEva, axial + `,"rope_grid_offset":0.5`, rotation,
			"rope-axial map[rope_axial_first:row rope_axial_offset:0.5]", ""},
		{&timmEva, axial + `,"ref_feat_shape":[3,5]`, rotation,
			"rope-axial map[rope_axial_cols:5 rope_axial_first:row rope_axial_rows:3]", ""},
		{&timmEva, mixed + `10`, rotation, "rope-mixed map[]", ""},
		{&timmEva, mixed + `100`, rotation, "rope-mixed map[rope_theta:100]", ""},
		{&timmEva, v3 + `2`, rotation, "rope-dinov3 map[]", ""},
		{&timmEva, v3 + `1`, rotation, "rope-dinov3 map[rope_dinov3_rescale:1]", ""},
		{&timmEva, v3 + `null`, rotation, "rope-dinov3 map[rope_dinov3_rescale:0]", ""},
	} {
		fields := gomlxtest.Must(values(object(t, "{"+c.args+"}")))(t)
		m := gomlxtest.Must(c.family.read(fields, true))(t)
		if got := c.of(m); got != c.want {
			t.Errorf("%s: %v, want %v", c.args, got, c.want)
		}
		maps.Copy(fields, gomlxtest.Must(values(object(t, "{"+c.written+"}")))(t))
		out := m.write()
		for key, value := range fields { // comes back as it was
			if got, want := short(out[key]), short(value); strings.TrimSuffix(got, ".0") != strings.TrimSuffix(want, ".0") {
				t.Errorf("%s: %s is written as %s, want %s", c.args, key, got, want)
			}
		}
	}
	// Null is no augmentation of the positions, which is not the default of transformers' DINOv3ViTConfig.
	for key, values := range map[string]map[any]any{"rope_theta": {nil: nil, 100.0: nil, 50.0: 50.0},
		"pos_embed_rescale": {nil: 0.0, 2.0: nil, 1.5: 1.5}, "pos_embed_shift": {nil: nil, 1.5: 1.5}} {
		param := map[string]string{"rope_theta": key, "pos_embed_rescale": "rope_dinov3_rescale",
			"pos_embed_shift": "rope_dinov3_shift"}[key]
		for value, want := range values {
			m := gomlxtest.Must(hfDINOv3.read(args(key, value), false))(t)
			if written := m.write()[key]; m.params[param] != want || value != nil && fmt.Sprint(written) != fmt.Sprint(value) {
				t.Errorf("%s %v: %v, written as %v", key, value, m.params, written)
			}
		}
	}
	plain := changedBy(ownViT("learned"), func(c *vit.Config) { c.QKVBias = "qv" }) // which VisionTransformer lacks
	m, out, err := forExport(formatTimm, plain, true, nil)
	if err != nil || m.family != &timmEva || out["rope_type"] != "cat" || fmt.Sprint(out["rope_temperature"]) != "10000" {
		t.Errorf("%v, rope_type of a model without rotary positions is %v, timm's default is cat", err, out["rope_type"])
	}
}

// CLIP's file has a configuration for each tower, or that of the image tower alone. CLIPConfig of transformers 5.23
// reads vision_config_dict in place of vision_config.
func TestFieldsIn_ImageTower(t *testing.T) {
	for text, want := range map[string]map[string]any{
		`{"hidden_size":7}`: args("hidden_size", 7.0), `{"hidden_size":5,"vision_config":{"hidden_size":7}}`: args(
			"hidden_size", 7.0),
		`{"vision_config":{"hidden_size":8,"patch_size":16},"vision_config_dict":{"hidden_size":24}}`: args(
			"hidden_size", 24.0),
		`{"vision_config":3}`: nil,
	} {
		if got, err := hfCLIP.fieldsIn(object(t, text)); (err == nil) != (want != nil) || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}

// timm.create_model ignores arguments that are None; a file's own arguments come before the architecture's, then those
// of pretrained_cfg (_update_default_model_kwargs in timm/models/_builder.py: the channels, the pooling and, with
// fixed_input_size or without a position table, the size), which older files have at their top level, then the class's.
func TestTimmArgs_HaveTheirOrder(t *testing.T) {
	const gap, mixed = "vit_base_patch16_gap_224", "vit_small_patch16_rope_mixed_224" // gap: of 16 heads, avg
	size, usual := []any{30.0, 40.0}, []any{224.0, 224.0}
	for _, c := range []struct {
		name, config string
		want         map[string]any // nil: refused
	}{
		{gap, `{}`, args("num_heads", 16.0, "depth", 12.0, "in_chans", 3.0, "global_pool", "avg", "img_size", usual)},
		{gap, `{"model_args":{"num_heads":8}}`, args("num_heads", 8.0)},
		{gap, `{"model_args":{"num_heads":null}}`, args("num_heads", 16.0)},
		{gap, `{"model_args":{"act_layer":"SiLU"}}`, args("act_layer", "silu")},
		{gap, `{"input_size":[1,30,40]}`, args("in_chans", 1.0, "img_size", usual)},
		{gap, `{"input_size":[5,30,40],"model_args":{"in_chans":2}}`, args("in_chans", 2.0)},
		{gap, `{"input_size":[5,30,40],"pretrained_cfg":{"input_size":[7,30,40]}}`, args("in_chans", 7.0)},
		{gap, `{"input_size":[5,30,40],"pretrained_cfg":{}}`, args("in_chans", 3.0)},
		{"vit_base_patch16_224", `{"pretrained_cfg":{"global_pool":"avg"}}`, args("global_pool", "avg")},
		{"vit_base_patch16_224", `{"global_pool":"avg","model_args":{"global_pool":"map"}}`, args("global_pool", "map")},
		{gap, `{"input_size":[4,30,40],"fixed_input_size":true}`, args("in_chans", 4.0, "img_size", size)},
		{gap, `{"pretrained_cfg":{"input_size":[4,30,40],"fixed_input_size":true}}`, args("img_size", size)},
		{gap, `{"input_size":[4,30,40],"fixed_input_size":true,"model_args":{"img_size":8}}`, args("img_size", 8.0)},
		{gap, `{"input_size":[4,30,40],"fixed_input_size":true,"model_args":{"dynamic_img_size":true}}`,
			args("img_size", usual)},
		{mixed, `{"input_size":[4,30,40]}`, args("img_size", size)},
		{gap, `{"model_args":3}`, nil}, {gap, `{"model_args":{"depth":1e400}}`, nil}, {gap, `{"pretrained_cfg":3}`, nil},
		{gap, `{"input_size":[0,3,5]}`, nil}, {gap, `{"input_size":[3,16384,16385]}`, nil},
		{gap, `{"input_size":[3,5]}`, nil}, {gap, `{"input_size":[3,5,7],"fixed_input_size":1}`, nil},
	} {
		got, err := timmArgs(c.name, object(t, c.config))
		if (err == nil) != (c.want != nil) {
			t.Errorf("%s %s: %v", c.name, c.config, err)
		}
		for key, want := range c.want {
			if !reflect.DeepEqual(got[key], want) {
				t.Errorf("%s %s: %s is %v, want %v", c.name, c.config, key, got[key], want)
			}
		}
	}
}

// Every architecture of timm is read and comes back from the arguments that are written, except those with an option
// that the network lacks; defaults of an architecture are not in its file.
func TestArchitectures_ComeBackFromTheirArguments(t *testing.T) {
	want := map[string]func(*vit.Config) bool{
		"vit_base_patch16_gap_224":    func(c *vit.Config) bool { return c.Heads == 16 && c.Pool == "mean" },
		"vit_base_patch32_siglip_256": func(c *vit.Config) bool { return c.Activation == "gelu_tanh" },
		"vit_base_patch16_clip_224":   func(c *vit.Config) bool { return c.PreNorm && c.Epsilon == 1e-5 },
		"eva_large_patch14_196":       func(c *vit.Config) bool { return c.ClassToken && c.FinalNorm == "pooled" },
		"vit_giant_patch14_dinov2":    func(c *vit.Config) bool { return c.SwiGLU && c.MLPDim == 4096 && c.Heads == 24 },
		"beitv2_base_patch16_224":     func(c *vit.Config) bool { return c.Position == "relative-table" },
	}
	read := 0
	for _, name := range ArchitectureNames() {
		f := gomlxtest.Must(timmFamily(name))(t)
		m, err := f.read(gomlxtest.Must(timmArgs(name, nil))(t), true)
		if err != nil {
			if want[name] != nil || !strings.Contains(err.Error(), " is ") { // names the option
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		read++
		back, err := f.read(gomlxtest.Must(asJSON(m.write()))(t), true)
		if err != nil || back.config != m.config || !maps.Equal(back.params, m.params) {
			t.Errorf("%s is read again as %+v, %v, was %+v", name, back, err, m)
		}
		if ok := want[name]; ok != nil && !ok(&m.config) {
			t.Errorf("%s is %+v", name, m.config)
		}
	}
	if n := len(ArchitectureNames()); n != 251 || read != 251-16 {
		t.Errorf("%d of %d architectures were read", read, n)
	}
	// A model is written as the architecture from which the fewest arguments differ, the first of these by name.
	for name, want := range map[string]string{
		"vit_tiny_patch16_224":  "deit_tiny_patch16_224 map[fc_norm:false img_size:224]", // of equal arguments
		"aimv2_1b_patch14_448":  "aimv2_1b_patch14_224 map[img_size:448]",
		"beit_base_patch16_384": "beit_base_patch16_384 map[use_fc_norm:true]",
	} {
		f := gomlxtest.Must(timmFamily(name))(t)
		m := gomlxtest.Must(f.read(gomlxtest.Must(timmArgs(name, nil))(t), true))(t)
		as, args, err := architectureFor(f.class, m.write())
		if got := fmt.Sprint(as, " ", args); err != nil || got != want {
			t.Errorf("%s is written as %s, %v, want %s", name, got, err, want)
		}
	}
	if _, _, err := architectureFor("Conv", nil); err == nil || slices.Contains(ArchitectureNames(), "Conv") {
		t.Error("another class is written")
	}
}
