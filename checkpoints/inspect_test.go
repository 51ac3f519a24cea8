// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/vit"
)

func inspected(t testing.TB, path string) *Info {
	t.Helper()
	info, err := Inspect(path, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestInspectDescribesTheFixtures(t *testing.T) {
	fixtures.Each(t, testInspectDescribesTheFixtures)
}

func testInspectDescribesTheFixtures(t *testing.T) {
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

func TestADescriptionHasALineForEachProperty(t *testing.T) {
	i := &Info{Path: "dir", Format: formatCheckpoint, Step: 42, Config: ownViT("wepe"), Params: map[string]any{"b": 2,
		"a": 0.5},
		Labels: strings.Fields("cat dog eel fox gnu hen ibis"), Notes: []string{"one", "two\n"},
		Tensors: []TensorInfo{{Shape: []int{3, 5}, DType: "float32"}, {Shape: []int{7}, DType: "int64"}}}
	all := strings.Join(i.Labels[:5], ", ")
	for n, head := range map[int]string{0: "7 classes", 2: "7 classes: cat, dog", 5: "7 classes: " + all,
		7: "7 classes: " + all + ", …"} {
		described := *i
		described.Labels = i.Labels[:n]
		if got, want := described.String(), `path       dir
format     checkpoint
step       42
model      ViT of width 48, depth 2, 3 heads, MLP 29, patches of 2, 3 channels, epsilon 1e-06
positions  wepe, 1 prefix token, a grid of 3x5 for images of 6x10
           a = 0.5
           b = 2
head       `+head+`
parameters 15 float32
parameters 7 int64
tensors    2
note       one
note       two\n
`; got != want {
			t.Errorf("%d labels:\n%swant\n%s", n, got, want)
		}
	}
}

func TestInspectDescribesACheckpoint(t *testing.T) {
	dir := t.TempDir()
	c := ownViT("wepe")
	meta := trainedModel{Classes: strings.Fields("a b c d e f g")}
	meta.Recipe.Model.Config = c
	store := stirred(t, c, nil)
	store.SetParam("/wepe_alpha_u", 0.25)
	save(t, Saver{Dir: dir, KeepAll: true}, newStore(t, 1), 41, meta)
	path := save(t, Saver{Dir: dir, KeepAll: true}, store, 42, meta)
	putFile(t, filepath.Join(save(t, Saver{Dir: dir, KeepAll: true}, newStore(t, 3), 43, nil), storeName), []byte("{}"))
	info := inspected(t, dir)
	if info.Path != path || info.Format != formatCheckpoint || info.Step != 42 || info.Config != c ||
		!reflect.DeepEqual(info.Params, map[string]any{"wepe_alpha_u": 0.25}) || strings.Join(info.Labels, "") != "abcdefg" {
		t.Errorf("%+v", info)
	}
	if len(info.Notes) != 1 || !strings.Contains(info.Notes[0], "step-00000043 skipped") {
		t.Errorf("%q", info.Notes)
	}
	n := 0
	for v := range store.IterVariables() {
		at := slices.IndexFunc(info.Tensors, func(t TensorInfo) bool { return t.Name == v.Path() })
		if n++; at < 0 || !slices.Equal(info.Tensors[at].Shape, append([]int{}, v.Shape().Dimensions...)) {
			t.Errorf("%s is not among the tensors with its shape", v.Path())
		}
	}
	if n != len(info.Tensors) || n == 0 {
		t.Errorf("%d tensors, want %d", len(info.Tensors), n)
	}
	if _, err := Inspect(filepath.Join(dir, "step-00000043"), ImportOptions{}); err == nil {
		t.Error("a damaged checkpoint was inspected")
	}
	info = inspected(t, save(t, Saver{Dir: dir, KeepAll: true}, newStore(t, 4), 44, 3))
	if len(info.Notes) != 1 || !strings.Contains(info.Notes[0], "does not say what model") || info.Config.Width != 0 {
		t.Errorf("%+v", info)
	}
	info = inspected(t, save(t, Saver{Dir: dir, KeepAll: true}, newStore(t, 5), 45, meta))
	if len(info.Notes) != 1 || !strings.Contains(info.Notes[0], "is of another model") || info.Config != c {
		t.Errorf("%+v", info)
	}
}

func TestInspectDescribesEveryExport(t *testing.T) {
	c := ownViT("wepe")
	store := stirred(t, c, map[string]any{"wepe_alpha_u": 0.25})
	dir := exportedFrom(t, store, c, ExportOptions{Format: formatNative, DType: "float16"})
	want := []string{"format     native", "width 48, depth 2, 3 heads", "wepe_alpha_u = 0.25", "7 classes",
		"wepe, 1 prefix token, a grid of 3x5 for images of 6x10", "float16", "float32"} // the encoding's types are kept
	text := inspected(t, dir).String()
	for _, want := range want {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "model.onnx"), []byte{8, 9}, 0o644); err != nil { // IR version 9
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "model.onnx")} {
		if info := inspected(t, path); info.Format != formatONNX || len(info.Tensors) != 0 {
			t.Errorf("%+v", info)
		}
	}
}

func TestInspectListsTheTensorsOfUnknownFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.safetensors")
	writeWeights(t, file, map[string]*tensors.Tensor{
		"b\x1b[31m": tensors.FromValue([]int64{1, 2}), "a": tensors.FromValue(true),
	})
	info := inspected(t, file)
	if info.Format != "" || info.Config != (vit.Config{}) || len(info.Notes) != 1 || len(info.Tensors) != 2 ||
		info.Tensors[1].DType != "int64" || info.Tensors[0].Name != "a" {
		t.Errorf("%+v", info)
	}
	if text := info.String() + info.Tensors[1].String(); strings.Contains(text, "\x1b") {
		t.Errorf("a name commands the terminal: %q", text)
	}
	if _, err := Inspect(filepath.Join(t.TempDir(), "absent"), ImportOptions{}); err == nil {
		t.Error("nothing was inspected")
	}
}
