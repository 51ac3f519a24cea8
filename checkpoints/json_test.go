// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/internal/index"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// FuzzJSON: each JSON reader either returns a one-line error, or values in range that are read back unchanged after
// writing.
func FuzzJSON(f *testing.F) {
	manifest, err := manifest{Format: formatName, Version: formatVersion, Step: 7, Meta: []byte(`{"a":"<&>"}`),
		Files: []fileRecord{{variablesName, 1, "00"}, {storeName, 2, "ff"}}}.seal()
	if err != nil {
		f.Fatal(err)
	}
	const model = `{"image_rows":6,"image_cols":10,"patch_size":2,"width":14,"depth":2,"heads":7,"classes":13}`
	seeds := []string{
		string(manifest), string(manifest[:len(manifest)/2]), `{"manifest":null,"sha256":""}`,
		`{"manifest":{},"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}`,

		`{"params":[{"path":"/a/b","type":"float64","value":"NaN"},{"path":"/c","type":"[]int","value":[1,2]}],
			"frozen":["/x"]}`,
		`{"params":[{"path":"/a","type":"int8","value":300}]}`,
		`{"params":[{"path":"/a","type":"func()","value":1}],"frozen":{}}`,
		`{"params":[{"path":"/a","type":"[]float32","value":["Inf",1e39]}]}`,

		hfConfig(), hfConfig("id2label", labels(12, "12")),
		hfConfig("image_size", "[3,6,10]", "num_attention_heads", "1e3"),
		`{"pretrained_cfg":{"input_size":[3,224,224]},"model_args":{"num_heads":3,"img_size":32}}`,
		`{"a":{"b":[{"c":null}]},"a":1}`, strings.Repeat(`{"a":[`, 40),

		`{"model_type":"wepe","model":` + model + `,"params":[
			{"path":"wepe_alpha_u","type":"float64","value":0.3},{"path":"wepe_mode","type":"string","value":"paper"}],
			"id2label":{"0":"a"}}`,
		`{"model_type":"wepe","model":{"width":1e30}}`, `{"model_type":"wepe","model":{"unknown":1}}`,
		`{"model_type":"wepe","model":` + strings.Replace(model, "14", "99999999", 1) + `}`,
		`{"model_type":"wepe","model":` + model + `,"params":[{"path":"/seed","type":"[]int","value":[1]}]}`,

		`{"metadata":{"total_size":8},"weight_map":{"w":"model-00001-of-00002.safetensors"}}`,
		`{"weight_map":{"w":"../x.safetensors"}}`, `{"weight_map":{"w":"x/y.safetensors","v":"C:x.safetensors"}}`,
		`{"weight_map":{"w":"a\u0000.safetensors"}}`,
	}
	campaign.Fuzz(f, seeds, func(t *testing.T, text string) {
		raw := []byte(text)
		fuzzManifest(t, raw)
		fuzzStore(t, raw)
		fuzzIndex(t, raw)
		if config, err := strictjson.ParseObject(raw); err == nil {
			fuzzConfig(t, config)
			fuzzNative(t, config)
		}
	})
}

// accepted reports whether err is nil; an error must be one line and, for a file, a formatError.
func accepted(t *testing.T, err error, ofFile bool) bool {
	t.Helper()
	var format *formatError
	if err != nil && (strings.Contains(err.Error(), "\n") || ofFile && !errors.As(err, &format)) {
		t.Errorf("%T: %v", err, err)
	}
	return err == nil
}

func fuzzManifest(t *testing.T, raw []byte) {
	m, err := unseal("MANIFEST.json", raw)
	if !accepted(t, err, true) {
		return
	}
	again := gomlxtest.Must(m.seal())(t)
	back, err := unseal("MANIFEST.json", again)
	var meta bytes.Buffer // as encoding/json writes it
	json.HTMLEscape(&meta, m.Meta)
	if err != nil || back.Step != m.Step || !bytes.Equal(back.Meta, meta.Bytes()) || len(back.Files) != len(m.Files) {
		t.Errorf("%+v became %+v, %v", m, back, err)
	}
}

func fuzzStore(t *testing.T, raw []byte) {
	params, _, err := decodeStore("store.json", raw)
	accepted(t, err, true)
	for path, value := range params {
		p, err := newParam(path, value)
		if err != nil {
			continue // a string that is not UTF-8
		}
		if again, err := decodeParam(p); err != nil || fmt.Sprint(again) != fmt.Sprint(value) {
			t.Errorf("%s: %v, %v, want %v", path, again, err, value)
		}
	}
}

// Every file that an index names is beside it.
func fuzzIndex(t *testing.T, raw []byte) {
	shards, err := index.Parse(raw)
	accepted(t, err, false)
	for _, name := range shards {
		if filepath.Dir(filepath.Join("d", name)) != "d" || !strings.HasSuffix(name, ".safetensors") {
			t.Errorf("file %q", name)
		}
	}
}

func fuzzConfig(t *testing.T, config strictjson.Object) {
	fields := gomlxtest.Must(values(config))(t)
	for _, f := range families {
		m, err := f.read(fields, true)
		if accepted(t, err, false) && !sound(m.config) {
			t.Errorf("%s is read as %+v", f.class, m.config)
		}
	}
	for key, value := range fields {
		size, err := imageSize(value)
		if err == nil && (min(size[0], size[1]) < 1 || max(size[0], size[1]) > maxPixels) {
			t.Errorf("%s: %s is read as %s", key, config[key], size)
		}
	}
	if names, _ := labelsIn(config, 13); len(names) != 0 && len(names) != 13 {
		t.Errorf("%d labels", len(names))
	}
}

func sound(c vit.Config) bool {
	_, err := c.Resolve()
	return err == nil
}

// An accepted config describes a model that could be built.
func fuzzNative(t *testing.T, config strictjson.Object) {
	found, err := describeNative(config)
	if accepted(t, err, false) && (!sound(found.config) || found.config != gomlxtest.Resolved(found.config)) {
		t.Errorf("%+v", found.config)
	}
	for name := range found.params {
		if !slices.Contains(position.Params(), name) {
			t.Errorf("hyperparameter %q", name)
		}
	}
}
