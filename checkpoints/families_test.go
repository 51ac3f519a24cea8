// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// pooledAndLogits runs an import on images.
func pooledAndLogits(t *testing.T, m *Imported, images fixtures.Tensor) [][]float64 {
	t.Helper()
	return trace(t, m, images, func(tr *vit.Trace) []*Node { return []*Node{tr.Pooled, tr.Logits} })
}

func TestFamilies_EqualTheirSoftware(t *testing.T) { fixtures.Each(t, testFamiliesEqualTheirSoftware) }

// The fixture has float16 weights, so that both sides compute with equal numbers.
func testFamiliesEqualTheirSoftware(t *testing.T) {
	const set, tolerance = "families", 1e-5 // float32 of two blocks, in another order of sums
	dir := fixtures.Dir(t, set)
	models := gomlxtest.Must(os.ReadDir(dir))(t)
	seen := map[string]bool{}
	for _, entry := range models {
		t.Run(entry.Name(), func(t *testing.T) {
			m := imported(t, filepath.Join(dir, entry.Name()), ImportOptions{HeadOptional: true})
			want := fixtures.Tensors(t, set, entry.Name()+"/expected.safetensors")
			got := pooledAndLogits(t, withHead(m), want["images"])
			pooled, headless := want["pooled"]
			if headless {
				gomlxtest.Near(t, "pooled", got[0], pooled.Data, tolerance)
			} else {
				gomlxtest.Near(t, "logits", got[1], want["logits"].Data, tolerance)
			}
			formats := []string{m.Format, formatNative}
			if gomlxtest.OnXLA() {
				formats = nil // files do not depend on the engine
			}
			// Exported in its own format, and in ours, it has the same numbers.
			for _, format := range formats {
				dir := exported(t, m, ExportOptions{Format: format, Headless: headless})
				if config := readFile(t, filepath.Join(dir, foreignConfig)); format == formatTimm &&
					!bytes.Contains(config, []byte(`"fixed_input_size": true`)) {
					t.Errorf("timm would resize the images of %s", config)
				}
				back := imported(t, dir, ImportOptions{HeadOptional: true})
				if slices.Contains([]string{"BeitForImageClassification", "CLIPForImageClassification", "DINOv3ViTModel",
					"DeiTForImageClassificationWithTeacher", "SiglipVisionModel"}, entry.Name()) && format == m.Format {
					sameTensors(t, dir, filepath.Join(fixtures.Dir(t, set), entry.Name()))
				}
				again := pooledAndLogits(t, withHead(back), want["images"])
				gomlxtest.Near(t, "exported as "+format, again[0], got[0], 1e-6)
			}
			seen[classOf(t, filepath.Join(dir, entry.Name()))] = true
		})
	}
	for _, f := range families {
		plain := f == &hfViT || f == &hfDINOv2 || f == &jaxViT // in other fixtures
		if !seen[f.class] && !plain {
			t.Errorf("no model of %s %s", f.format, f.class)
		}
	}
}

// sameTensors compares the names of the tensors: transformers warns of one that a file lacks and then draws it anew.
func sameTensors(t *testing.T, got, want string) {
	t.Helper()
	var names [2][]string
	for i, dir := range []string{got, want} {
		all := gomlxtest.Must(readAll(readFile(t, filepath.Join(dir, foreignWeights))))(t)
		names[i] = slices.Sorted(maps.Keys(all))
	}
	if !slices.Equal(names[0], names[1]) {
		t.Errorf("tensors %q, want %q", names[0], names[1])
	}
}

// withHead adds a zero head to an import without one, so that it can be run and exported.
func withHead(m *Imported) *Imported {
	c := m.Config
	for path, dims := range map[string][]int{headPath + "weights": {c.PooledWidth(), c.Classes},
		headPath + "biases": {c.Classes}} {
		if m.Variables[path] == nil {
			m.Variables[path] = tensors.FromShape(shapes.Make(dtypes.Float32, dims...))
		}
	}
	return m
}

// classOf returns the class in a config.json, for timm from the architecture.
func classOf(t *testing.T, dir string) string {
	t.Helper()
	var config struct {
		Architecture  string   `json:"architecture"`
		Architectures []string `json:"architectures"`
	}
	configIn(t, dir, &config)
	if config.Architecture != "" {
		return architectures().Architectures[config.Architecture].Class
	}
	return config.Architectures[0]
}

// The gate blends a pretrained table with WePE, independent of the family's other options.
func TestHybrid_OfEveryTable(t *testing.T) {
	dir := fixtures.Dir(t, "families")
	for _, name := range []string{"vit_base_patch16_clip_quickgelu_224", "eva02_base_patch14_224",
		"vit_so150m2_patch16_reg1_gap_256"} {
		m := imported(t, filepath.Join(dir, name), ImportOptions{})
		c := m.Config
		c.Position = strings.Replace(c.Position, "learned", "hybrid", 1)
		if !c.Encoding().BeginsWith(m.Config.Encoding()) {
			t.Errorf("%s: %s does not begin with the table of %s", name, c.Position, m.Config.Position)
		}
		store := model.NewStore()
		gomlxtest.NoError(t, weight.Create(store.Scope("/vit"), m.Variables))
		store.Scope("/vit").SetParams(m.Params)
		gradient := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			loss := ReduceAllSum(Square(c.Logits(s.Store().Scope("/vit"), in[0])))
			return Gradient(loss, s.Store().GetVariable("/vit/position/gate_raw").NodeValue(loss.Graph()))
		}, Noise(c, 2, 5))
		if x := gradient[0][0]; !(x != 0 && x-x == 0) {
			t.Errorf("%s: the gradient of the gate is %g", name, x)
		}
	}
}

// At another size a model keeps the grid of its tables in our own format; other software takes the grid from the size
// of the image, and gets tables of that size.
func TestExport_ModelsOfAnotherSize(t *testing.T) {
	gomlxtest.OnGo(t)
	dir := fixtures.Dir(t, "families")
	for _, of := range []struct{ name, format string }{
		{"beit_base_patch16_224", formatNative}, {"beit_base_patch16_224", formatTimm},
		{"eva02_base_patch14_224", formatNative},
		{"vit_small_patch16_rope_mixed_ape_224", formatNative}, {"deit_tiny_distilled_patch16_224", formatNative},
	} {
		m := imported(t, filepath.Join(dir, of.name), ImportOptions{ImageRows: 20, ImageCols: 16})
		said := slices.ContainsFunc(m.Report, func(line string) bool { return strings.Contains(line, "timm uses a spline") })
		if said != (of.name == "beit_base_patch16_224") {
			t.Errorf("%s at another size: the report is %q", of.name, m.Report)
		}
		back := imported(t, exported(t, m, ExportOptions{Format: of.format}), ImportOptions{})
		images := Noise(m.Config, 2, 5)
		want := gomlxtest.Must(m.Logits(gomlxtest.Backend(), images))(t)
		near(t, of.name+" as "+of.format, gomlxtest.Must(back.Logits(gomlxtest.Backend(), images))(t), want, 1e-6)
		if back.Config != m.Config {
			t.Errorf("%s as %s: %+v, want %+v", of.name, of.format, back.Config, m.Config)
		}
	}
}

// Older BEiT files contain the indices of their tables; transformers' variant fp16 has another file name.
func TestImport_OlderAndHalvedFiles(t *testing.T) {
	for _, name := range []string{"BeitForImageClassification", "beit_base_patch16_224"} {
		dir := filepath.Join(fixtures.Dir(t, "families"), name)
		want := imported(t, dir, ImportOptions{})
		all := gomlxtest.Must(readAll(readFile(t, filepath.Join(dir, foreignWeights))))(t)
		names := slices.Sorted(maps.Keys(all))
		table := slices.IndexFunc(names, func(s string) bool { return strings.HasSuffix(s, "bias_table") })
		index := strings.Replace(names[table], "bias_table", "index", 1)
		all[index] = tensors.FromValue([][]int64{{3, 1}, {2, 0}})
		gomlxtest.NoError(t, os.Remove(filepath.Join(dir, foreignWeights)))
		writeWeights(t, filepath.Join(dir, foreignHalf), all)
		m := imported(t, dir, ImportOptions{})
		same(t, name, m, want)
		if !slices.Contains(m.Report, "left out: "+index) {
			t.Errorf("%s: the report does not name %s: %q", name, index, m.Report)
		}
	}
}
