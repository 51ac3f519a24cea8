// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// testdata/transformers_defaults.json is transformers 5.23.0's CONFIG_MAPPING[type]().to_dict() for each type, without
// entries that no family here has. A config.json may omit any of these.
func TestMissingConfigEntriesHaveTransformersDefaults(t *testing.T) {
	var all map[string]map[string]any
	raw := gomlxtest.Must(os.ReadFile("testdata/transformers_defaults.json"))(t)
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		if f.format != formatHF {
			continue
		}
		kind := f.types[0]
		if f.inner != "" {
			kind += "_vision_model"
		}
		for _, field := range f.fields {
			want, known := all[kind][field.key]
			if !known || field.byDefault == nil {
				continue
			}
			seen++
			got, err := json.Marshal(field.byDefault)
			if wanted, _ := json.Marshal(want); err != nil || string(got) != string(wanted) {
				t.Errorf("%s: %s is %s by default, in transformers %s", f.class, field.key, got, wanted)
			}
		}
	}
	if seen < 120 {
		t.Errorf("%d defaults", seen)
	}
}

// architectures.json has the defaults of timm's classes, which tools/py reads from timm.
func TestWhatAConfigLeavesOutIsTimmsDefault(t *testing.T) {
	var all struct{ Classes map[string]map[string]any }
	if err := json.Unmarshal(gomlxtest.Must(os.ReadFile("architectures.json"))(t), &all); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range families {
		for _, field := range f.fields {
			want, known := all.Classes[f.class][field.key]
			if f.format != formatTimm || !known || want == nil || field.byDefault == nil {
				continue // timm's null is a default of its own
			}
			seen++
			got, err := json.Marshal(field.byDefault)
			if wanted, _ := json.Marshal(want); err != nil || string(got) != string(wanted) {
				t.Errorf("%s: %s is %s by default, in timm %s", f.class, field.key, got, wanted)
			}
		}
	}
	if seen < 60 {
		t.Errorf("%d defaults", seen)
	}
}

// CLIP's file has a configuration for each tower, or that of the image tower alone.
func TestTheFieldsOfTheImageTowerMayBeTheWholeConfig(t *testing.T) {
	for _, text := range []string{`{"hidden_size": 7}`, `{"hidden_size": 5, "vision_config": {"hidden_size": 7}}`} {
		var config strictjson.Object
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		if got, err := hfCLIP.fieldsIn(config); err != nil || !maps.Equal(got, map[string]any{"hidden_size": 7.0}) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// Without an entry timm's models have no augmentation of positions; ours have DINOv3's by default, a factor up to 2.
func TestAnAugmentationOfPositionsIsReadAndWrittenAsTimms(t *testing.T) {
	at := slices.IndexFunc(timmEva.fields, func(f field) bool { return f.key == "rope_rescale_coords" })
	f := timmEva.fields[at]
	for value, want := range map[any]any{nil: 0.0, 1.0: 1.0, 2.0: nil} {
		m := &foreign{config: vit.Config{Position: "rope-dinov3"}, params: map[string]any{}}
		if err := f.set(m, value); err != nil || m.params["rope_dinov3_rescale"] != want ||
			fmt.Sprint(f.get(m)) != fmt.Sprint(value) {
			t.Errorf("%v: %v, %v, written as %v", value, err, m.params, f.get(m))
		}
	}
}

func TestOptionsThatTheNetworkDoesNotSupportAreRefused(t *testing.T) {
	dinov3 := func(changed ...any) map[string]any {
		args := map[string]any{"img_size": 32.0, "patch_size": 8.0, "embed_dim": 24.0, "depth": 1.0, "num_heads": 2.0,
			"num_classes": 3.0, "use_rot_pos_emb": true, "rope_type": "dinov3", "rope_rotate_half": true,
			"use_abs_pos_emb": false, "rope_grid_offset": 0.0}
		for i := 0; i < len(changed); i += 2 {
			args[changed[i].(string)] = changed[i+1]
		}
		return args
	}
	for want, read := range map[string]func() error{
		"": func() error { _, err := timmEva.read(dinov3(), true); return err },
		"rope_grid_offset = 0.5": func() error {
			_, err := timmEva.read(dinov3("rope_grid_offset", 0.5), true)
			return err
		},
		"rope_grid_indexing = xy": func() error {
			_, err := timmEva.read(dinov3("rope_grid_indexing", "xy"), true)
			return err
		},
		"vision_use_head": func() error {
			_, err := hfSigLIP.read(map[string]any{"vision_use_head": false}, false)
			return err
		},
		"the side of square patches": func() error {
			_, err := timmEva.read(dinov3("patch_size", []any{8.0}), true)
			return err
		},
		// timm's VisionTransformer asserts class_token for global_pool "token"; its GluMlp here has SiLU.
		"class_token is false, want true": func() error {
			_, err := timmViT.read(map[string]any{"class_token": false}, true)
			return err
		},
		`act_layer is "gelu", want "silu"`: func() error {
			_, err := timmViT.read(map[string]any{"mlp_layer": packedGLU}, true)
			return err
		},
		`attn_type is "x", want "eva" or "rope"`: func() error {
			_, err := timmEva.read(dinov3("attn_type", "x"), true)
			return err
		},
		"rope_rotate_half = false": func() error {
			_, err := timmEva.read(dinov3("rope_rotate_half", false), true)
			return err
		},
		"patch_size":    func() error { _, err := timmEva.read(dinov3("patch_size", []any{}), true); return err },
		"at most 16384": func() error { _, err := imageSize(16385.0); return err },
	} {
		if err := read(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := hfSigLIP.read(map[string]any{"vision_use_head": false}, true); err != nil {
		t.Errorf("a classifier pools by the mean: %v", err)
	}
	// timm's SwiGLU rounds up (layers/mlp.py), and Eva may be without a last norm.
	m, err := timmEva.read(dinov3("swiglu_mlp", true, "swiglu_align_to", 8.0, "mlp_ratio", 3.1, "use_fc_norm", false,
		"use_post_transformer_norm", false), true)
	if err != nil || m.config.MLPDim != 80 || m.config.FinalNorm != "none" { // 24·3.1 is 74
		t.Errorf("%v, %d hidden units, norm %q", err, m.config.MLPDim, m.config.FinalNorm)
	}
	if size, err := imageSize(16384.0); err != nil || size != (gridSize{16384, 16384}) {
		t.Errorf("%v, %v", size, err)
	}
}

// _update_default_model_kwargs (timm/models/_builder.py) sets what no argument states: the channels, the pooling and,
// with fixed_input_size, the size of the images. Without a position table the size is set too.
func TestArgumentsFollowFromTheTrainingAsInTimm(t *testing.T) {
	type object = map[string]any
	size := []any{30.0, 40.0}
	for _, c := range []struct {
		trained    string
		args, want object
	}{
		{`{}`, object{}, object{}},
		{`{"global_pool": "avg"}`, object{}, object{"global_pool": "avg"}},
		{`{"global_pool": "avg"}`, object{"global_pool": "map"}, object{"global_pool": "map"}},
		{`{"input_size": [4, 30, 40]}`, object{}, object{"in_chans": 4.0}},
		{`{"input_size": [4, 30, 40], "fixed_input_size": false}`, object{"in_chans": 1.0}, object{"in_chans": 1.0}},
		{`{"input_size": [4, 30, 40], "fixed_input_size": true}`, object{}, object{"in_chans": 4.0, "img_size": size}},
		{`{"input_size": [4, 30, 40], "fixed_input_size": true}`, object{"img_size": 8.0},
			object{"in_chans": 4.0, "img_size": 8.0}},
		{`{"input_size": [4, 30, 40]}`, object{"use_abs_pos_emb": false},
			object{"in_chans": 4.0, "img_size": size, "use_abs_pos_emb": false}},
		{`{"input_size": [4, 30, 40]}`, object{"use_abs_pos_emb": true},
			object{"in_chans": 4.0, "use_abs_pos_emb": true}},
	} {
		var trained strictjson.Object
		if err := json.Unmarshal([]byte(c.trained), &trained); err != nil {
			t.Fatal(err)
		}
		if err := trainedArgs(trained, c.args); err != nil || !reflect.DeepEqual(c.args, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.trained, err, c.args, c.want)
		}
	}
}

// architectures.json has the arguments of timm's classes; Python refuses others.
func TestTimmsClassesHaveTheWrittenArguments(t *testing.T) {
	for _, f := range families {
		for _, field := range f.fields {
			if _, known := architectures().Classes[f.class][field.key]; f.format == formatTimm && field.get != nil && !known {
				t.Errorf("%s has no argument %q", f.class, field.key)
			}
		}
	}
	plain := ownViT("learned")
	plain.QKVBias = "qv" // which VisionTransformer does not have
	m, out, err := forExport(formatTimm, plain, true, nil)
	if err != nil || m.family != &timmEva || out["rope_type"] != "cat" {
		t.Errorf("%v, rope_type of a model without rotary positions is %v, timm's default is cat", err, out["rope_type"])
	}
	// DINOv2 giant: 8192 units in fc1, for the gate and 4096 hidden units (GluMlp halves mlp_ratio·embed_dim).
	giant := gomlxtest.Resolved(vit.Config{ImageRows: 518, ImageCols: 518, PatchSize: 14, Width: 1536, Depth: 40, Heads: 24, MLPDim: 4096,
		Classes: 1000, SwiGLU: true, LayerScale: 1e-5, Position: "learned"})
	m, out, err = forExport(formatTimm, giant, true, nil)
	if ratio, _ := out["mlp_ratio"].(fraction); err != nil || m.family != &timmViT || out["mlp_layer"] != packedGLU ||
		int(1536*float64(ratio)) != 8192 {
		t.Errorf("%v, DINOv2 giant is written as %v", err, out)
	}
}
