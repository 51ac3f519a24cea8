// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/internal/index"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// randomViT returns a model of random small sizes with finite weights of all magnitudes of a type.
func randomViT(t *testing.T, rng *rand.Rand, dtype dtypes.DType) *Imported {
	t.Helper()
	heads, patch := 1+rng.IntN(4), 1+rng.IntN(4)
	c := gomlxtest.Resolved(vit.Config{ImageRows: patch * (1 + rng.IntN(5)), ImageCols: patch * (1 + rng.IntN(5)),
		PatchSize: patch,
		Heads:     heads, Width: heads * (1 + rng.IntN(5)), MLPDim: 1 + rng.IntN(23), Depth: 1 + rng.IntN(3),
		Classes: 2 + rng.IntN(11), Epsilon: 1e-6, Position: "learned", Pool: []string{"class", "mean"}[rng.IntN(2)]})
	m := &Imported{Config: c, Variables: map[string]*tensors.Tensor{}}
	for _, v := range (naming{&native, ""}).variables(c) {
		shape := v.dims(c)
		raw := make([]byte, shapes.Make(dtype, shape...).ByteSize())
		for i := range raw {
			raw[i] = byte(rng.Uint32())
			if i%dtype.Size() == dtype.Size()-1 {
				raw[i] &^= 4 // a bit of the exponent: all ones are not finite
			}
		}
		m.Variables[v.path] = tensors.FromFlatDataAndDimensions(appendFloats(nil, raw, dtype), shape...)
	}
	return m
}

func TestExport_RandomModelsComeBack(t *testing.T) {
	rng := campaign.Rand(31)
	labels := strings.Fields("a b c d e f g h i j k l")
	types := map[string]dtypes.DType{"float32": dtypes.Float32, "float16": dtypes.Float16, "bfloat16": dtypes.BFloat16}
	for i := range campaign.Times(10) {
		name, root := []string{"float32", "float16", "bfloat16"}[i%3], t.TempDir()
		want := randomViT(t, rng, types[name])
		m := want
		for _, k := range rng.Perm(len(fileFormats)) { // each from the previous file
			format := fileFormats[k]
			if format == formatHF && want.Config.Pool == "mean" { // it does not support it
				continue
			}
			dir, o := filepath.Join(root, format), ExportOptions{Format: format, DType: name, Labels: labels[:m.Config.Classes],
				Preprocess: &normalized}
			if _, err := Export(dir, nil, loaded(t, m), m.Config, o); err != nil {
				t.Fatalf("model %d, %+v to %s: %v", i, m.Config, format, err)
			}
			m = imported(t, dir, ImportOptions{})
			if !slices.Equal(m.Labels, o.Labels) || !slices.Equal(m.Mean, normalized.Mean[:]) ||
				!slices.Equal(m.Std, normalized.Std[:]) {
				t.Errorf("%s: labels %q, mean %v, std %v", format, m.Labels, m.Mean, m.Std)
			}
			if same(t, format, m, want); m.Config != want.Config || t.Failed() {
				t.Fatalf("model %d in %s of %s: %+v, want %+v", i, format, name, m.Config, want.Config)
			}
		}
	}
}

// calm limits weights to finite computations.
func calm(m *Imported) *Imported {
	rng := rand.New(rand.NewPCG(3, 3))
	for path, x := range m.Variables {
		flat := make([]float32, x.Size())
		for i := range flat {
			flat[i] = rng.Float32() - 0.5
		}
		m.Variables[path] = tensors.FromFlatDataAndDimensions(flat, x.Shape().Dimensions...)
	}
	return m
}

// ONNX Runtime refuses a mutated file, or computes logits: numbers may change, because the format has no checksum.
func TestONNX_MutatedFiles(t *testing.T) {
	rng := campaign.Rand(33)
	m := calm(randomViT(t, rng, dtypes.Float32))
	onnxRuns(t)
	file := filepath.Join(exported(t, m, ExportOptions{Format: formatONNX}), "model.onnx")
	whole, images, ran, refused := readFile(t, file), Noise(m.Config, 1, 1), 0, 0
	for i := range campaign.Times(50) {
		putFile(t, file, campaign.Mutate(rng, whole, whole))
		start := time.Now()
		var logits []float32
		mutated, err := OpenONNX(file, m.Config)
		if err == nil {
			logits, err = mutated.Logits(images)
			mutated.Finalize()
		}
		switch took := time.Since(start); {
		case took > 20*time.Second:
			t.Errorf("mutation %d took %v", i, took)
		case err != nil:
			refused++
		case len(logits) > 0:
			ran++
		}
	}
	if ran == 0 || refused == 0 {
		t.Errorf("%d mutated files ran, %d were refused", ran, refused)
	}
}

func TestImport_LeaksNothing(t *testing.T) {
	dir, store := t.TempDir(), newStore(t, 1)
	save(t, Saver{Dir: dir}, store, 1, nil)
	damaged := beside(t, dir, store, 2, nil)
	rewrite(t, filepath.Join(damaged, variablesName), func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw })
	var files []string
	for _, n := range []naming{hf, timm, jax} {
		config := configOf(n, smallViT)
		file, cut := put(t, n, made(n, smallViT), config), put(t, n, made(n, smallViT), config)
		rewrite(t, cut, func(raw []byte) []byte { return raw[:len(raw)-7] })
		files = append(files, file, cut)
	}
	campaign.Leaks(t, 20, func(int) {
		unlock := gomlxtest.Must(Lock(dir))(t)
		c, skipped := newest(t, dir)
		if err := c.Load(model.NewStore(), nil); err != nil || len(skipped) != 1 {
			t.Fatal(err, skipped)
		}
		refused := 0
		for _, file := range files {
			_, err := Import(file, ImportOptions{Hints: Hints{Grid: smallGrid}})
			_, also := Inspect(file, ImportOptions{})
			if err != nil && also != nil {
				refused++
			}
		}
		if refused != 3 {
			t.Errorf("%d files are refused, want the three that are cut", refused)
		}
		gomlxtest.NoError(t, unlock())
	})
}

// FuzzJSON: each JSON reader either returns a one-line error, or values in range that are read back unchanged after
// writing.
func FuzzJSON(f *testing.F) {
	manifest, err := manifest{Format: formatName, Version: formatVersion, Step: 7, Meta: []byte(`{"a":"<&>"}`),
		Files: []fileRecord{{variablesName, 1, "00"}, {storeName, 2, "ff"}}}.seal()
	if err != nil {
		f.Fatal(err)
	}
	const model = `{"image_rows":6,"image_cols":10,"patch_size":2,"width":14,"depth":2,"num_heads":7,"classes":13}`
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
	fields, err := values(config)
	if !accepted(t, err, false) {
		return
	}
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
