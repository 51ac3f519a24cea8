// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// fieldOf returns a field of a family.
func fieldOf(t *testing.T, f *family, key string) field {
	t.Helper()
	at := slices.IndexFunc(f.fields, func(field field) bool { return field.key == key })
	if at < 0 {
		t.Fatalf("%s has no field %s", f.class, key)
	}
	return f.fields[at]
}

// with is a copy of values with others, in pairs of key and value.
func with(values map[string]any, changed ...any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, values)
	for i := 0; i < len(changed); i += 2 {
		out[changed[i].(string)] = changed[i+1]
	}
	return out
}

func TestTheRangesOfNumbersInAConfigHaveTheirEnds(t *testing.T) {
	for _, c := range []struct {
		family *family
		key    string
		value  any
		want   string // of the error, empty for none
	}{
		{&hfViT, "hidden_size", 1.0, ""}, {&hfViT, "hidden_size", 0.0, "0, want an integer from 1"},
		{&hfViT, "hidden_size", float64(1 << 24), ""},
		{&hfViT, "hidden_size", float64(1<<24 + 1), "16777217, want an integer from 1"},
		{&hfViT, "hidden_size", 1.5, "1.5, want an integer from 1"}, {&hfViT, "hidden_size", "7", `"7", want an integer`},
		{&hfDINOv3, "num_register_tokens", 0.0, ""},
		{&hfDINOv3, "num_register_tokens", -1.0, "-1, want an integer from 0"},
		{&timmViT, "reg_tokens", 0.0, ""}, {&timmEva, "num_reg_tokens", -1.0, "-1, want an integer from 0"},
		{&hfViT, "layer_norm_eps", 1.0, ""}, {&hfViT, "layer_norm_eps", 1e-30, ""},
		{&hfViT, "layer_norm_eps", 1.01, "1.01, want more than 0 and at most 1"},
		{&hfViT, "layer_norm_eps", 0.0, "0, want more than 0 and at most 1"},
		{&hfViT, "layer_norm_eps", nil, "null, want a number"},
		{&hfViT, "patch_size", []any{3.0, 3.0}, ""}, {&hfViT, "patch_size", 1.0, ""},
		{&hfViT, "patch_size", []any{3.0, 5.0}, "[3,5], want the side of square patches"},
		{&hfViT, "patch_size", []any{3.0, 3.0, 3.0}, "[3,3,3], want the side of square patches"},
		{&hfViT, "patch_size", 0.0, "0, want the side of square patches"},
		{&hfViT, "patch_size", []any{[]any{16.0}, []any{16.0}}, "[[16],[16]], want the side of square patches"},
		{&hfDINOv3, "query_bias", []any{}, "[], want true or false"},
		{&hfViT, "image_size", 1.0, ""}, {&hfViT, "image_size", []any{16384.0, 1.0}, ""},
		{&hfViT, "image_size", []any{1.0, 16385.0}, "[1,16385], want pixels, one number or rows and columns, at most 16384"},
		{&hfViT, "image_size", []any{0.0, 3.0}, "[0,3], want pixels"}, {&hfViT, "image_size", []any{3.0, 0.0}, "want pixels"},
		{&hfViT, "image_size", []any{3.0}, "[3], want pixels"}, {&hfViT, "image_size", []any{}, "[], want pixels"},
		{&hfViT, "image_size", []any{4.0, 3.0, 5.0}, ""}, {&hfViT, "qkv_bias", 1.0, "1, want true or false"},
		{&hfViT, "hidden_act", "relu", `"relu", want "gelu" or "gelu_python" or "gelu_pytorch_tanh"`},
		{&hfCLIP, "attention_bias", true, ""},
		{&hfCLIP, "attention_bias", false, "false, want true: this library has no other"},
		{&timmViT, "qk_norm", "yes", `"yes", want true or false`},
		{&timmViT, "block_fn", "x", `"x", want "Block": this library`}, {&timmViT, "init_values", 0.0, ""},
		{&timmViT, "init_values", "x", `"x", want a number`}, {&timmViT, "init_values", nil, ""},
		{&hfDINOv2, "layerscale_value", nil, "null, want more than 0: models of this class have a LayerScale"},
		{&hfDINOv2, "layerscale_value", 0.0, "0, want more than 0"}, {&hfDINOv2, "mlp_ratio", "x", `"x", want a number`},
		{&hfDINOv3, "rope_theta", "x", `"x", want a number`}, {&timmBeit, "mlp_ratio", "x", `"x", want a number`},
		{&timmEva, "rope_temperature", "x", `"x", want a number`},
		{&timmViT, "norm_layer", "x", `"x", want LayerNorm or RmsNorm of epsilon 1e-6 or 1e-5`},
	} {
		m := &foreign{config: vit.Config{Position: "rope-dinov3", Width: 48}, params: map[string]any{},
			entries: map[string]any{}}
		err := fieldOf(t, c.family, c.key).set(m, c.value)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) &&
			!strings.Contains(err.Error(), ", "+c.want) {
			t.Errorf("%s %s = %v: %v, want %q", c.family.class, c.key, c.value, err, c.want)
		}
	}
	if size, err := imageSize([]any{4.0, 3.0, 5.0}); err != nil || size != (gridSize{3, 5}) { // channels first
		t.Errorf("%v, %v", size, err)
	}
}

// transformers reads rope_theta: 100 as an integer and refuses it.
func TestAFractionIsWrittenWithAPointOrAnExponent(t *testing.T) {
	for x, want := range map[fraction]string{100: "100.0", 0: "0.0", 0.5: "0.5", 1e-12: "1e-12", 1e30: "1e+30"} {
		if got := string(gomlxtest.Must(json.Marshal(x))(t)); got != want {
			t.Errorf("%g is written %s, want %s", float64(x), got, want)
		}
	}
	if _, err := json.Marshal(fraction(math.NaN())); err == nil {
		t.Error("NaN is written")
	}
}

func TestHiddenUnitsAreTheTruncatedProduct(t *testing.T) {
	for _, c := range []struct {
		width int
		ratio float64
		want  int
	}{{7, 2.99, 20}, {7, 3, 21}, {768, 4, 3072}, {3, 1e300, 1 << 30}} {
		if got := hidden(c.width, c.ratio); got != c.want {
			t.Errorf("width %d, ratio %g: %d, want %d", c.width, c.ratio, got, c.want)
		}
	}
	// Dinov2SwiGLUFFN: int(hidden·2/3), then (hidden + 7) // 8 * 8 (modeling_dinov2.py of transformers).
	for ratio := range 30 {
		for _, width := range []int{8, 13, 48} {
			c := vit.Config{Width: width, SwiGLU: true}
			if got, want := dinov2Hidden(c, float64(ratio)),
				int(math.Ceil(math.Floor(float64(width*ratio)*2/3)/8))*8; got != want {
				t.Errorf("width %d, ratio %d: %d units, want %d", width, ratio, got, want)
			}
		}
	}
	ratio := fieldOf(t, &hfDINOv2, "mlp_ratio")
	for units, want := range map[int]any{3: 1, 6: 2, 3 * 1023: 1023, 3 * 1024: fraction(1024), 7: ratioOf(3, 7)} {
		if got := ratio.get(&foreign{config: vit.Config{Width: 3, MLPDim: units}}); got != want {
			t.Errorf("%d units of width 3: ratio %v, want %v", units, got, want)
		}
	}
}

func TestDinov2IsRefusedWhereTransformersDoesNotRunIt(t *testing.T) {
	c := ownViT("learned")
	square := c
	square.ImageCols = square.ImageRows
	for _, test := range []struct {
		config vit.Config
		ratio  any
		want   string
	}{
		{square, 3, ""},
		{c, 3, "transformers cannot run Dinov2 on a grid of 3x5 that is not square: choose timm, onnx or native"},
		{square, fraction(1.5), "transformers takes integers as mlp_ratio of Dinov2, and none makes 29 hidden units of " +
			"width 48: choose timm, onnx or native"},
	} {
		err := dinov2Cannot(test.config, map[string]any{"mlp_ratio": test.ratio})
		if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// transformers has three switches, this network one of three words.
func TestTheBiasesOfDINOv3AreAllNoneOrAllButTheKeys(t *testing.T) {
	for _, c := range []struct {
		query, key, value bool
		want              string
		ok                bool
	}{
		{true, true, true, "", true}, {true, false, true, "qv", true}, {false, false, false, "none", true},
		{true, true, false, "", false}, {false, true, true, "", false}, {false, true, false, "", false},
		{true, false, false, "", false}, {false, false, true, "", false},
	} {
		m, err := hfDINOv3.read(map[string]any{"query_bias": c.query, "key_bias": c.key, "value_bias": c.value}, false)
		if (err == nil) != c.ok || err == nil && m.config.QKVBias != c.want {
			t.Errorf("%+v: %v, %+v", c, err, m)
		}
		if want := fmt.Sprintf("query_bias %v, key_bias %v and value_bias %v: ", c.query, c.key, c.value); err != nil &&
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err != nil {
			continue
		}
		if out := m.write(); out["query_bias"] != c.query || out["key_bias"] != c.key || out["value_bias"] != c.value {
			t.Errorf("%+v is written as %v", c, out)
		}
	}
}

// The default of this library is transformers', theta 100, and null is that default too.
func TestDINOv3sThetaIsAHyperparameterOnlyIfItIsNotTheDefault(t *testing.T) {
	for value, want := range map[any]any{nil: nil, 100.0: nil, 50.0: 50.0, 101.0: 101.0} {
		m := gomlxtest.Must(hfDINOv3.read(map[string]any{"rope_theta": value}, false))(t)
		if m.params["rope_theta"] != want {
			t.Errorf("rope_theta %v: %v", value, m.params)
		}
		if written, is := m.write()["rope_theta"], m.params["rope_theta"]; is != nil &&
			fmt.Sprint(written) != fmt.Sprint(is) ||
			is == nil && written != fraction(100) {
			t.Errorf("rope_theta %v is written as %v", value, written)
		}
	}
	m := gomlxtest.Must(hfDINOv3.read(map[string]any{"use_gated_mlp": true, "hidden_act": "silu"}, false))(t)
	if out := m.write(); out["hidden_act"] != "silu" || out["use_gated_mlp"] != true {
		t.Errorf("a gated MLP is written as %v", out)
	}
	_, err := hfDINOv3.read(map[string]any{"use_gated_mlp": true, "hidden_act": "gelu"}, false)
	if err == nil || err.Error() != `hidden_act is "gelu", want "silu" of a gated MLP` {
		t.Errorf("a gated MLP with GELU: %v", err)
	}
}

// timm/models/vision_transformer.py: use_fc_norm = global_pool == 'avg' if fc_norm is None else fc_norm.
func TestThePlaceOfTimmsLastNormDependsOnThePooling(t *testing.T) {
	for _, c := range []struct{ pool, norm, want any }{
		{"token", nil, ""}, {"avg", nil, "pooled"}, {"token", true, "pooled"}, {"avg", true, "pooled"},
		{"token", false, ""}, {"avg", false, ""},
	} {
		m := gomlxtest.Must(timmViT.read(map[string]any{"global_pool": c.pool, "fc_norm": c.norm}, true))(t)
		if m.config.FinalNorm != c.want {
			t.Errorf("%+v: norm %q", c, m.config.FinalNorm)
		}
		if out := m.write()["fc_norm"]; out != (c.want == "pooled") {
			t.Errorf("%+v is written as %v", c, out)
		}
	}
	for _, stated := range []bool{true, false} {
		m := gomlxtest.Must(timmViT.read(map[string]any{"final_norm": stated}, true))(t)
		if (m.config.FinalNorm == "none") == stated || m.write()["final_norm"] != stated {
			t.Errorf("final_norm %v: norm %q, written as %v", stated, m.config.FinalNorm, m.write()["final_norm"])
		}
	}
}

// timm/models/eva.py: use_fc_norm defaults to global_pool 'avg', use_post_transformer_norm to its opposite.
func TestThePlaceOfEvasLastNormIsThatOfTimm(t *testing.T) {
	for _, c := range []struct{ pool, pooled, tokens, want any }{
		{"avg", nil, nil, "pooled"}, {"token", nil, nil, ""}, {"avg", false, nil, ""}, {"token", true, nil, "pooled"},
		{"avg", nil, false, "pooled"}, {"token", nil, false, "none"}, {"token", false, true, ""},
		{"avg", false, false, "none"},
		{"token", true, true, nil}, {"avg", nil, true, nil},
	} {
		m, err := timmEva.read(map[string]any{"global_pool": c.pool, "use_fc_norm": c.pooled,
			"use_post_transformer_norm": c.tokens}, true)
		if c.want == nil {
			if err == nil || !strings.HasPrefix(err.Error(), "use_fc_norm and use_post_transformer_norm: ") {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || m.config.FinalNorm != c.want {
			t.Errorf("%+v: %v, %+v", c, err, m)
		}
		if out := m.write(); out["use_fc_norm"] != (c.want == "pooled") ||
			out["use_post_transformer_norm"] != (c.want == "") {
			t.Errorf("%+v is written as %v", c, out)
		}
	}
}

func TestArgumentsThatTimmRefusesAreNamed(t *testing.T) {
	rotary := map[string]any{"use_rot_pos_emb": true}
	swiGLU := map[string]any{"mlp_layer": packedGLU, "act_layer": "silu"}
	for _, c := range []struct {
		family *family
		args   map[string]any
		want   string // the error, empty for none
	}{
		{&timmViT, with(nil, "mlp_ratio", "x"), `mlp_ratio is "x", want a number`},
		{&timmViT, with(nil, "act_layer", "relu"), `act_layer is "relu", want "gelu", "gelu_tanh" or "quick_gelu"`},
		{&timmViT, with(nil, "mlp_layer", "x"), `mlp_layer is "x", want Mlp, SwiGLU or ` +
			`GluMlp(act_layer=SiLU,gate_last=False)`},
		{&timmViT, swiGLU, ""},
		{&timmViT, with(swiGLU, "global_pool", "map"), `act_layer is "silu", want "silu" of a SwiGLU, and no pooling by ` +
			`"map"`},
		{&timmViT, with(swiGLU, "mlp_layer", "SwiGLU"), ""},
		{&timmViT, with(nil, "embed_norm_layer", "LayerNorm(eps=1e-06)"), ""},
		{&timmViT, with(nil, "embed_norm_layer", "LayerNorm(eps=1e-05)"),
			`embed_norm_layer is "LayerNorm(eps=1e-05)", want the norm of the blocks, or none`},
		{&timmViT, with(nil, "mlp_ratio", 0.001), "the MLP has no hidden units"},
		{&timmViT, with(nil, "mlp_ratio", 1.5/768), ""}, // one hidden unit
		{&timmDistilled, with(nil, "mlp_layer", "x"), `mlp_layer is "x", want Mlp, SwiGLU or ` +
			`GluMlp(act_layer=SiLU,gate_last=False)`},
		{&timmDistilled, with(nil, "reg_tokens", 1.0), "reg_tokens is 1, want 0: this library has no other"},
		{&timmEva, with(nil, "mlp_ratio", "x"), `mlp_ratio is "x", want a number`},
		{&timmEva, with(nil, "swiglu_align_to", -1.0), "swiglu_align_to is -1, want an integer from 0"},
		{&timmEva, with(nil, "global_pool", "map", "attn_pool_num_heads", 0.0),
			"attn_pool_num_heads is 0, want an integer from 1"},
		{&timmEva, with(nil, "global_pool", "map", "attn_pool_num_heads", 1.0), ""},
		{&timmEva, with(nil, "attn_pool_num_heads", 0.0), ""}, // not read by another pooling
		{&timmEva, with(nil, "global_pool", "map", "attn_pool_mlp_ratio", "x"), `attn_pool_mlp_ratio is "x", want a number`},
		{&timmEva, with(nil, "global_pool", "map", "attn_pool_mlp_ratio", 0.001), "attn_pool_mlp_ratio: no hidden units"},
		{&timmEva, with(nil, "global_pool", "map", "attn_pool_mlp_ratio", 1.5/768), ""},
		{&timmEva, rotary, ""},
		{&timmEva, with(rotary, "rope_type", "x"), `rope_type is "x", want "cat", "mixed" or "dinov3"`},
		{&timmEva, with(nil, "rope_type", "x"), ""}, // without rotation
		{&timmEva, with(rotary, "rope_grid_indexing", "x"), `rope_grid_indexing is "x", want "ij" or "xy"`},
		{&timmEva, with(rotary, "rope_grid_offset", "x"), `rope_grid_offset is "x", want a number`},
		{&timmEva, with(rotary, "ref_feat_shape", "x"), `ref_feat_shape is "x", want pixels, one number or rows and ` +
			`columns, ` +
			"at most 16384"},
		{&timmEva, with(rotary, "rope_type", "mixed", "rope_grid_indexing", "xy"), ""},
		{&timmEva, with(rotary, "rope_type", "mixed"), `rope_grid_indexing is "ij", want "xy"`},
		{&timmEva, with(rotary, "rope_rotate_half", true),
			`rope_rotate_half = true: this library has no such pairs of channels in rope_type "cat"`},
		{&timmEva, with(rotary, "rope_type", "dinov3", "rope_rotate_half", true, "rope_grid_offset", 0.5),
			"rope_grid_offset = 0.5, rope_grid_indexing = ij: want 0 and ij of dinov3"},
		{&timmEva, with(nil, "rope_rotate_half", true), ""},
	} {
		if _, err := c.family.read(c.args, true); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s %v: %v, want %q", c.family.class, c.args, err, c.want)
		}
	}
}

// Eva's rotation: only what differs from this library's default is a hyperparameter; timm's own default theta, 10000,
// is not this library's.
func TestTheRotationOfEvaBecomesHyperparameters(t *testing.T) {
	base := map[string]any{"use_rot_pos_emb": true, "use_abs_pos_emb": false, "rope_temperature": 100.0}
	for _, c := range []struct {
		args     map[string]any
		position string
		want     map[string]any
		theta    float64 // as written
	}{
		{map[string]any{"use_abs_pos_emb": false}, "none", map[string]any{}, 10000},
		{map[string]any{}, "learned", map[string]any{}, 10000},
		{base, "rope-axial", map[string]any{"rope_axial_first": "row"}, 100},
		{with(base, "use_abs_pos_emb", true), "learned+rope-axial", map[string]any{"rope_axial_first": "row"}, 100},
		{with(base, "rope_grid_indexing", "xy"), "rope-axial", map[string]any{}, 100},
		{with(base, "rope_temperature", 10000.0), "rope-axial",
			map[string]any{"rope_axial_first": "row", "rope_theta": 10000.0}, 10000},
		{with(base, "rope_grid_offset", 0.5), "rope-axial",
			map[string]any{"rope_axial_first": "row", "rope_axial_offset": 0.5}, 100},
		{with(base, "ref_feat_shape", []any{3.0, 5.0}), "rope-axial",
			map[string]any{"rope_axial_first": "row", "rope_axial_rows": 3.0, "rope_axial_cols": 5.0}, 100},
		{with(base, "rope_type", "mixed", "rope_grid_indexing", "xy", "rope_temperature", 10.0), "rope-mixed",
			map[string]any{}, 10},
		{with(base, "rope_type", "mixed", "rope_grid_indexing", "xy"), "rope-mixed", map[string]any{"rope_theta": 100.0},
			100},
		{with(base, "rope_type", "dinov3", "rope_rotate_half", true, "rope_rescale_coords", 2.0), "rope-dinov3",
			map[string]any{}, 100},
	} {
		m := gomlxtest.Must(timmEva.read(c.args, true))(t)
		if m.config.Position != c.position || !maps.Equal(m.params, c.want) {
			t.Errorf("%v: %s with %v, want %s with %v", c.args, m.config.Position, m.params, c.position, c.want)
		}
		out := m.write()
		if out["qkv_fused"] != true { // the names that are written, whatever the architecture has
			t.Errorf("%v: qkv_fused is written as %v", c.args, out["qkv_fused"])
		}
		if got := fmt.Sprint(out["rope_temperature"]); got != fmt.Sprint(c.theta) {
			t.Errorf("%v: theta is written as %s, want %g", c.args, got, c.theta)
		}
		for key, value := range c.args { // comes back as it was
			if got, want := short(out[key]), short(value); strings.TrimSuffix(got, ".0") != strings.TrimSuffix(want, ".0") {
				t.Errorf("%v: %s is written as %s", c.args, key, got)
			}
		}
	}
}

func TestTheNormsAndActivationsOfTimmHaveOneName(t *testing.T) {
	for _, c := range []struct {
		key         string
		value, want any
	}{
		{"norm_layer", nil, "LayerNorm(eps=1e-06)"}, {"norm_layer", "LayerNorm", "LayerNorm(eps=1e-06)"},
		{"norm_layer", "layernorm", "LayerNorm(eps=1e-06)"}, {"norm_layer", "rmsnorm", "RmsNorm(eps=1e-06)"},
		{"norm_layer", "LayerNorm(eps=1e-05)", "LayerNorm(eps=1e-05)"}, {"norm_layer", "other", "other"},
		{"embed_norm_layer", nil, nil}, {"embed_norm_layer", "RmsNorm", "RmsNorm(eps=1e-06)"},
		{"act_layer", nil, "gelu"}, {"act_layer", "GELU", "gelu"}, {"act_layer", "SiLU", "silu"},
		{"act_layer", "quick_gelu", "quick_gelu"}, {"depth", nil, nil}, {"depth", 3.0, 3.0},
	} {
		if got := canonical(c.key, c.value); got != c.want {
			t.Errorf("%s %v is %v, want %v", c.key, c.value, got, c.want)
		}
	}
	for want, c := range map[any]vit.Config{
		"LayerNorm(eps=1e-06)": {Epsilon: 1e-6}, "LayerNorm(eps=1e-05)": {Epsilon: 1e-5}, "none": {Epsilon: 1e-4},
		"RmsNorm(eps=1e-06)": {Epsilon: 1e-6, RMSNorm: true}, "RmsNorm(eps=1e-05)": {Epsilon: 1e-5, RMSNorm: true},
	} {
		if got := normName(c); got != want {
			t.Errorf("%+v is %v, want %v", c, got, want)
		}
		m := &foreign{}
		if err := fieldOf(t, &timmViT, "norm_layer").set(m, want); (err == nil) != (want != "none") || err == nil &&
			(m.config.Epsilon != c.Epsilon || m.config.RMSNorm != c.RMSNorm) {
			t.Errorf("%v: %v, %+v", want, err, m.config)
		}
	}
}

// The defaults of transformers' ViTConfig.
func TestNullInAConfigIsTheDefault(t *testing.T) {
	got := gomlxtest.Must(hfViT.read(map[string]any{"hidden_act": nil, "hidden_size": nil, "image_size": nil}, true))(t)
	want := gomlxtest.Resolved(vit.Config{ImageRows: 224, ImageCols: 224, PatchSize: 16, Channels: 3, Width: 768, Depth: 12, Heads: 12,
		MLPDim: 3072, Classes: 1, Epsilon: 1e-12, Position: "learned"})
	if got.config != want {
		t.Errorf("%+v, want %+v", got.config, want)
	}
}

func TestTensorsWithoutUseAreFoundByNameScopeOrEnding(t *testing.T) {
	m := &foreign{base: "vit.", family: &family{extra: []string{"pooler.", "pre/", "mask", "*.index"}}}
	for name, want := range map[string]bool{
		"vit.pooler.dense.weight": true, "pooler.dense.weight": true, "vit.poolers": false, "x.pooler.y": false,
		"pre/kernel": true, "vit.pre/kernel": true, "prefix": false, "mask": true, "vit.mask": true, "vit.mask.x": false,
		"layer.0.index": true, "index": false, "vit.layer.index.x": false,
	} {
		if got := m.isExtra(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
