// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
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

// timm fixes the size of the images, or has no position table that determines it.
func TestTheTrainingSizeDefaultsToTheModels(t *testing.T) {
	for _, c := range []struct {
		fixed bool
		args  map[string]any
		want  bool
	}{{false, map[string]any{}, false}, {true, map[string]any{}, true},
		{false, map[string]any{"use_abs_pos_emb": false}, true}, {false, map[string]any{"use_abs_pos_emb": true}, false},
		{true, map[string]any{"img_size": 8.0}, false}} {
		trained := strictjson.Object{"input_size": json.RawMessage("[3,30,40]"), "fixed_input_size": json.RawMessage("false")}
		if c.fixed {
			trained["fixed_input_size"] = json.RawMessage("true")
		}
		given := c.args["img_size"]
		if err := trainedArgs(trained, c.args); err != nil {
			t.Fatal(err)
		}
		size, added := c.args["img_size"].([]any)
		if added != c.want || !added && c.args["img_size"] != given || added && (len(size) != 2 || size[1] != 40.0) {
			t.Errorf("%+v: img_size %v", c, c.args["img_size"])
		}
	}
}
