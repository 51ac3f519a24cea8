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
)

// transformers 5 writes the names of version 4 and reads those that it has in memory too, which
// tools/peers/references/spellings.py lists.
func TestImport_TransformersNamesInMemory(t *testing.T) {
	var spelled map[string]map[string]string
	if err := json.Unmarshal(readFile(t, "testdata/transformers_names.json"), &spelled); err != nil {
		t.Fatal(err)
	}
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
		all, err := readAll(readFile(t, filepath.Join(dir, foreignWeights)))
		if err != nil {
			t.Fatal(err)
		}
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

// timm's clean_state_dict drops two prefixes, one of them twice; create_model of timm 1.0.31 refuses all others.
func TestImport_TimmWrappedNames(t *testing.T) {
	weights, config := made(timm, smallViT), timmConfig(smallViT)
	want := imported(t, put(t, timm, weights, config), ImportOptions{})
	for prefix, opens := range map[string]bool{"module.": true, "_orig_mod.": true, "_orig_mod.module.": true,
		"module._orig_mod.": true, "_orig_mod.module._orig_mod.": true, "module.module.": false, "model.": false,
		"backbone.": false} {
		wrapped := map[string]*tensors.Tensor{}
		for name, x := range weights {
			wrapped[prefix+name] = x
		}
		m, err := Import(put(t, timm, wrapped, config), ImportOptions{})
		if (err == nil) != opens {
			t.Errorf("%s: %v", prefix, err)
		}
		if opens && err == nil {
			same(t, prefix, m, want)
		}
	}
	weights["module.cls_token"] = weights["cls_token"]
	if _, err := Import(put(t, timm, weights, config), ImportOptions{}); err == nil {
		t.Error("a name twice")
	}
	of, wrapped := hfConfig(), map[string]*tensors.Tensor{}
	for name, x := range made(hf, smallViT) { // transformers does not drop it
		wrapped["module."+name] = x
	}
	if _, err := Import(put(t, hf, wrapped, of), ImportOptions{}); err == nil {
		t.Error("transformers' names with a prefix")
	}
}
