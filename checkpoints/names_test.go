// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// transformers 5 writes the names of version 4 and reads those that it has in memory too, which
// tools/peers/references/spellings.py lists.
func TestImport_TransformersNamesInMemory(t *testing.T) {
	var spelled map[string]map[string]string
	gomlxtest.NoError(t, json.Unmarshal(readFile(t, "testdata/transformers_names.json"), &spelled))
	swiglu := ownViT("learned")
	swiglu.ImageRows, swiglu.Pool, swiglu.SwiGLU, swiglu.LayerScale, swiglu.MLPDim = 10, "class+mean", true, 1, 32
	dirs := map[string]string{
		"ViTForImageClassification": fixtures.Dir(t, "hf_vit"), "Dinov2ForImageClassification": fixtures.Dir(t,
			"dinov2_tiny"),
		"Dinov2ForImageClassificationswiglu": exportedFrom(t, stirred(t, swiglu, nil), swiglu, ExportOptions{}),
	}
	for class, names := range spelled {
		dir := dirs[class]
		if dir == "" {
			dir = filepath.Join(fixtures.Dir(t, "families"), class)
		}
		all := gomlxtest.Must(readAll(readFile(t, filepath.Join(dir, foreignWeights))))(t)
		want, renamed := imported(t, dir, ImportOptions{HeadOptional: true}), 0
		for _, name := range slices.Sorted(maps.Keys(all)) {
			for block := range want.Config.Depth {
				of := func(name string) string { return strings.ReplaceAll(name, ".0.", "."+string(rune('0'+block))+".") }
				for old, current := range names {
					if of(old) != name || block > 0 && !strings.Contains(old, ".0.") {
						continue
					}
					for i, half := range halvesOf(t, all[name], len(strings.Fields(current))) {
						all[of(strings.Fields(current)[i])] = half
					}
					delete(all, name)
					renamed++
				}
			}
		}
		if renamed < 5*want.Config.Depth {
			t.Fatalf("%s: %d names of %d blocks", class, renamed, want.Config.Depth)
		}
		again := t.TempDir()
		writeWeights(t, filepath.Join(again, foreignWeights), all)
		putFile(t, filepath.Join(again, foreignConfig), readFile(t, filepath.Join(dir, foreignConfig)))
		got := imported(t, again, ImportOptions{HeadOptional: true})
		same(t, class, got, want)
		if got.Config != want.Config {
			t.Errorf("%s: %+v, want %+v", class, got.Config, want.Config)
		}
	}
}

// halvesOf splits a tensor along its first axis.
func halvesOf(t *testing.T, x *tensors.Tensor, n int) (parts []*tensors.Tensor) {
	t.Helper()
	if n == 1 {
		return []*tensors.Tensor{x}
	}
	if x.DType() != dtypes.Float32 {
		t.Fatalf("%s", x.Shape())
	}
	flat, dims := tensors.MustCopyFlatData[float32](x), slices.Clone(x.Shape().Dimensions)
	dims[0] /= n
	for part := range slices.Chunk(flat, len(flat)/n) {
		parts = append(parts, tensors.FromFlatDataAndDimensions(part, dims...))
	}
	return parts
}

// timm's clean_state_dict drops two prefixes, one of them twice; create_model of timm 1.0.31 refuses all others, and
// transformers drops none. transformers 5.23 writes ViT-MSN without the base in front of its blocks.
func TestImport_WrappedNames(t *testing.T) {
	one := changedBy(smallViT, func(c *vit.Config) { c.Depth = 1 })
	configs := map[string]string{formatTimm: timmConfig(one), formatHF: hfConfig("num_hidden_layers", "1")}
	for _, c := range []struct {
		n      naming
		change func(name string) string
		opens  bool
	}{
		{timm, prefix("module."), true}, {timm, prefix("_orig_mod."), true}, {timm, prefix("_orig_mod.module."), true},
		{timm, prefix("module._orig_mod."), true}, {timm, prefix("_orig_mod.module._orig_mod."), true},
		{timm, prefix("module.module."), false}, {timm, prefix("model."), false}, {hf, prefix("module."), false},
		{hf, func(name string) string { return strings.Replace(name, hf.base+"encoder.", "encoder.", 1) }, true},
	} {
		weights, renamed := made(c.n, one), map[string]*tensors.Tensor{}
		want := imported(t, put(t, c.n, weights, configs[c.n.format]), ImportOptions{})
		for name, x := range weights {
			renamed[c.change(name)] = x
		}
		m, err := Import(put(t, c.n, renamed, configs[c.n.format]), ImportOptions{})
		if (err == nil) != c.opens {
			t.Errorf("%s: %v", c.change("NAME"), err)
		}
		if err == nil {
			same(t, c.change("NAME"), m, want)
		}
		if renamed["cls_token"] = weights["cls_token"]; c.n.format == formatTimm { // with and without the prefix
			_, err = Import(put(t, timm, renamed, configs[formatTimm]), ImportOptions{})
			refuses(t, "a name twice", err, map[bool]kind{true: inFile, false: kindOf(err)}[c.opens], "cls_token")
		}
	}
}

func prefix(with string) func(string) string { return func(name string) string { return with + name } }
