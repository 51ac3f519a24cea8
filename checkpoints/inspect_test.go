// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

func inspected(t testing.TB, path string) *Info {
	t.Helper()
	info := gomlxtest.Must(Inspect(path, ImportOptions{}))(t)
	return info
}

func TestInspect_Fixtures(t *testing.T) { fixtures.Each(t, testInspectFixtures) }

func testInspectFixtures(t *testing.T) {
	for format := range sets {
		c := imported(t, setDir(t, format), optionsFor(t, format)).Config
		info := inspected(t, setDir(t, format))
		if info.Format != format || info.Config.Width != c.Width || info.Config.Depth != c.Depth ||
			info.Config.Classes != c.Classes || info.Config.PatchSize != c.PatchSize {
			t.Errorf("%s: %+v, want %+v", format, info, c)
		}
		if n := info.numbers(); len(n) != 1 || n["float32"] != c.Parameters() {
			t.Errorf("%s: numbers %v, want %d float32", format, n, c.Parameters())
		}
		if !slices.IsSortedFunc(info.Tensors, func(a, b TensorInfo) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: tensors are not in order", format)
		}
		switch format { // not in the files
		case formatHF:
			if info.Config != c || len(info.Labels) != c.Classes || len(info.Notes) != 0 {
				t.Errorf("%+v", info)
			}
		case formatTimm:
			if info.Config != c || len(info.Notes) != 0 {
				t.Errorf("%+v", info)
			}
		case formatJAX:
			if info.Config.Heads != c.Heads || info.Config.ImageRows != 0 ||
				!strings.Contains(info.Notes[0], "grid of its") {
				t.Errorf("%+v", info)
			}
		}
	}
}

func TestInspect_Checkpoint(t *testing.T) {
	dir, c := t.TempDir(), ownViT("wepe")
	meta := trainedModel{Classes: strings.Fields("a b c d e f g")}
	meta.Recipe.Model.Config = c
	store := stirred(t, c, nil)
	store.SetParam("/wepe_alpha_u", 0.25)
	path := save(t, Saver{Dir: dir}, store, 42, meta)
	damaged := beside(t, dir, newStore(t, 3), 43, nil)
	putFile(t, filepath.Join(damaged, storeName), []byte("{}"))
	info := inspected(t, dir)
	if info.Path != path || info.Format != formatCheckpoint || info.Step != 42 || info.Config != c ||
		!reflect.DeepEqual(info.Params, map[string]any{"wepe_alpha_u": 0.25}) || strings.Join(info.Labels, "") != "abcdefg" ||
		len(info.Notes) != 1 || !strings.Contains(info.Notes[0], damaged) || len(info.Tensors) != store.NumVariables() {
		t.Errorf("%+v", info)
	}
	if m := imported(t, dir, ImportOptions{}); !slices.ContainsFunc(m.Report, func(line string) bool {
		return strings.Contains(line, damaged)
	}) {
		t.Errorf("the import reports %q", m.Report)
	}
	for v := range store.IterVariables() {
		at := slices.IndexFunc(info.Tensors, func(t TensorInfo) bool { return t.Name == v.Path() })
		if at < 0 || !slices.Equal(info.Tensors[at].Shape, append([]int{}, v.Shape().Dimensions...)) {
			t.Errorf("%s is not among the tensors with its shape", v.Path())
		}
	}
	if _, err := Inspect(damaged, ImportOptions{}); err == nil {
		t.Error("a damaged checkpoint was inspected")
	}
	for meta, width := range map[any]int{3: 0, &meta: c.Width} { // no model, or another one than the variables
		info = inspected(t, save(t, Saver{Dir: t.TempDir()}, newStore(t, 4), 44, meta))
		if len(info.Notes) != 1 || info.Config.Width != width {
			t.Errorf("%+v", info)
		}
	}
}

// ONNX files are recognized by their first byte; names of a file cannot command the terminal.
func TestInspect_ExportsAndUnknownFiles(t *testing.T) {
	c := ownViT("wepe")
	dir := exportedFrom(t, stirred(t, c, map[string]any{"wepe_alpha_u": 0.25}), c, ExportOptions{Format: formatNative,
		DType: "float16"})
	info := inspected(t, dir)
	if n := info.numbers(); info.Format != formatNative || info.Config != c || info.Params["wepe_alpha_u"] != 0.25 ||
		n["float16"] == 0 || n["float32"] == 0 { // the encoding's types are kept
		t.Errorf("%+v, %v", info, info.numbers())
	}
	putFile(t, filepath.Join(dir, "model.onnx"), []byte{8, 9}) // IR version 9
	for _, path := range []string{dir, filepath.Join(dir, "model.onnx")} {
		if info := inspected(t, path); info.Format != formatONNX || len(info.Tensors) != 0 {
			t.Errorf("%+v", info)
		}
	}
	for name, raw := range map[string][]byte{"empty.onnx": nil, "other.onnx": []byte("9")} {
		putFile(t, filepath.Join(dir, name), raw)
		_, err := Inspect(filepath.Join(dir, name), ImportOptions{})
		refuses(t, name, err, inFile, name)
	}
	file := filepath.Join(t.TempDir(), "x.safetensors")
	writeWeights(t, file, map[string]*tensors.Tensor{
		"b\x1b[31m": tensors.FromValue([]int64{1, 2}), "a": tensors.FromValue(true),
	})
	info = inspected(t, file)
	if info.Format != "" || info.Config != (vit.Config{}) || len(info.Notes) != 1 || len(info.Tensors) != 2 ||
		info.Tensors[1].DType != "int64" || info.Tensors[0].Name != "a" {
		t.Errorf("%+v", info)
	}
	if text := info.String(); strings.Contains(text, "\x1b") {
		t.Errorf("a name commands the terminal: %q", text)
	}
}
