// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// trainedOn saves a model as package finetune does, its head's weights averaged, and returns the run directory, the
// store and the averaged weights.
func trainedOn(t *testing.T, c vit.Config, change func(*trainedModel, *model.Store)) (dir string, store *model.Store,
	average *tensors.Tensor) {
	t.Helper()
	store = stirred(t, c, nil)
	average = tensors.FromFlatDataAndDimensions(make([]float32, c.Width*c.Classes), c.Width, c.Classes)
	gomlxtest.Must(store.CreateVariable("/ema/vit/head/weights", average))(t)
	store.SetParam("/wepe_alpha_u", 0.25)
	store.SetParam("/learning_rate", 0.1) // of the training
	var meta trainedModel
	meta.Recipe.Model.Config, meta.Classes = c, strings.Fields("a b c d e f g")
	meta.Recipe.Augment.Mean, meta.Recipe.Augment.Std = [3]float64{0.5, 0.25, 0.125}, [3]float64{0.5, 0.75, 0.3}
	if change != nil {
		change(&meta, store)
	}
	dir = t.TempDir()
	save(t, Saver{Dir: filepath.Join(dir, "best")}, store, 5, meta)
	return dir, store, average
}

func TestImport_Training(t *testing.T) {
	gomlxtest.OnGo(t)
	c := ownViT("wepe")
	dir, store, average := trainedOn(t, c, nil)
	save(t, Saver{Dir: filepath.Join(dir, "last")}, newStore(t, 1), 9, nil) // best takes precedence
	best := filepath.Join(dir, "best")
	for _, path := range []string{dir, best, filepath.Join(best, "step-00000005")} {
		m := imported(t, path, ImportOptions{})
		if m.Format != formatCheckpoint || m.Config != c || strings.Join(m.Labels, "") != "abcdefg" ||
			!reflect.DeepEqual(m.Params, map[string]any{"wepe_alpha_u": 0.25}) {
			t.Errorf("%s: %s %+v, labels %q, params %v", path, m.Format, m.Config, m.Labels, m.Params)
		}
		want := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{6, 10},
			Mean: normalized.Mean, Std: normalized.Std}
		if m.Preprocess == nil || *m.Preprocess != want || !slices.Equal(m.Mean, normalized.Mean[:]) ||
			!slices.Equal(m.Std, normalized.Std[:]) {
			t.Errorf("%s: preprocessing %+v, mean %v, std %v", path, m.Preprocess, m.Mean, m.Std)
		}
		all := inStore(store)
		all.Variables["head/weights"] = average
		same(t, path, m, all)
	}
	// At another size, and in a format that does not support the encoding.
	m := imported(t, dir, ImportOptions{ImageRows: 8, ImageCols: 4})
	if m.Preprocess.Size != [2]int{8, 4} || m.Config.ImageRows != 8 {
		t.Errorf("%+v, %+v", m.Preprocess, m.Config)
	}
	// A recipe with a mean alone, and preprocessing, which older checkpoints do not have.
	covers := preprocess.Settings{Resize: preprocess.ResizeCover, Size: [2]int{6, 10}, Crop: [2]int{6, 10},
		Mean: normalized.Mean}
	other, _, _ := trainedOn(t, c, func(m *trainedModel, _ *model.Store) {
		m.Preprocess, m.Recipe.Augment.Std = covers, [3]float64{}
	})
	if m := imported(t, other, ImportOptions{}); m.Preprocess == nil || *m.Preprocess != covers ||
		!slices.Equal(m.Mean, covers.Mean[:]) || !slices.Equal(m.Std, []float64{1, 1, 1}) {
		t.Errorf("preprocessing %+v, mean %v, std %v, want %+v", m.Preprocess, m.Mean, m.Std, covers)
	}
	images := Noise(m.Config, 2, 3)
	was := gomlxtest.Must(m.Logits(gomlxtest.Backend(), images))(t)
	folded := imported(t, exported(t, m, ExportOptions{}), ImportOptions{})
	near(t, "folded", gomlxtest.Must(folded.Logits(gomlxtest.Backend(), images))(t), was, 1e-6)
}

func TestImport_InvalidTrainingCheckpoints(t *testing.T) {
	gomlxtest.OnGo(t)
	for i, c := range []struct {
		change func(*trainedModel, *model.Store)
		want   kind
		names  string
	}{
		{func(m *trainedModel, _ *model.Store) { m.Recipe.Model.Width = 0 }, asked, "meta"},
		{func(m *trainedModel, _ *model.Store) { m.Recipe.Architecture = "dhvt" }, asked, "dhvt"},
		{func(m *trainedModel, _ *model.Store) { m.Recipe.Detector = map[string]json.RawMessage{} }, asked, "detector"},
		{func(m *trainedModel, _ *model.Store) { m.Classes = m.Classes[1:] }, asked, "7 classes"},
		{func(m *trainedModel, _ *model.Store) { m.Recipe.Model.Width = 47 }, asked, "3 heads"},
		{func(_ *trainedModel, s *model.Store) { s.VariableWithValue("/vit/extra", 1.) }, mismatched, "extra"},
		{func(m *trainedModel, _ *model.Store) { m.Recipe.Model.Depth = 3 }, mismatched, "block_02"},
	} {
		dir, _, _ := trainedOn(t, ownViT("wepe"), c.change)
		_, err := Import(dir, ImportOptions{})
		refuses(t, fmt.Sprint(i), err, c.want, c.names)
	}
}

// A field that this version does not know could change the model.
func TestImport_NativeConfigIsReadStrictly(t *testing.T) {
	const model = `{"image_rows":6,"image_cols":10,"patch_size":2,"channels":3,"width":48,"depth":2,"num_heads":3` +
		`,"classes":7,"position":"learned"}`
	const fit = `{"fit":"exact","size":[6,10],"resample":"bicubic"}`
	of := func(model, more string) string { return `{"model_type":"wepe","model":` + model + more + `}` }
	for text, names := range map[string]string{
		of(model, ""): "", of(strings.Replace(model, "num_heads", "heads", 1), ""): "", // of an earlier version
		of(model, `,"preprocess":`+fit): "", of(model, `,"params":[]`): "",
		`{"model_type":3}`: "model_type", `{"model_type":"wepe2","model":` + model + `}`: "model_type",
		of(strings.Replace(model, `"num_heads":3`, `"num_heads":5`, 1), ""): "5 heads", of(`3`, ""): "model",
		of(strings.Replace(model, `"num_heads":3`, `"new":1`, 1), ""): `"new"`, of(model, `,"params":3`): "params",
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"x"}]`):                     "wepe_alpha_u",
		of(model, `,"params":[{"path":"/seed","type":"int","value":1}]`):                `"/seed"`,
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"int8","value":300}]`):      `wepe_alpha_u`,
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"float64","value":"x"}]`):   `wepe_alpha_u`,
		of(model, `,"params":[{"path":"wepe_alpha_u","type":"float64","value":"Inf"}]`): "",
		of(model, `,"preprocess":3`):                                                        "preprocess",
		of(model, `,"preprocess":`+strings.Replace(fit, "exact", "x", 1)):                   "fit",
		of(model, `,"preprocess":{"fit":"patches","size":[6,10],"patch":2}`):                "patches",
		of(strings.Replace(model, `"channels":3`, `"channels":1`, 1), `,"preprocess":`+fit): "channels",
	} {
		_, err := describeNative(gomlxtest.Must(strictjson.ParseObject([]byte(text)))(t))
		if (err == nil) != (names == "") || err != nil && !strings.Contains(err.Error(), names) {
			t.Errorf("%s: %v, want an error that names %q", text, err, names)
		}
	}
}

// Hints that contradict files which are complete, and kinds of resampling that do not exist, are errors there too.
func TestImport_HintsAndKindsOfCompleteFiles(t *testing.T) {
	c := ownViT("rope-axial")
	run, _, _ := trainedOn(t, c, nil)
	export := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	for _, name := range []string{BestDir, LastDir} { // no directories of checkpoints
		putFile(t, filepath.Join(export, name), nil)
	}
	for _, dir := range []string{run, export} {
		imported(t, dir, ImportOptions{Hints: Hints{Grid: smallGrid}})
		for names, o := range map[string]ImportOptions{"5×3": {Hints: Hints{Grid: gridSize{5, 3}}},
			"nearby": {Resample: "nearby"}, "test_vit": {Hints: Hints{Architecture: "test_vit"}}} {
			_, err := Import(dir, o)
			refuses(t, dir, err, asked, names)
		}
		m := imported(t, dir, ImportOptions{})
		_, odd := m.Resize(7, 10, "")
		if _, kind := m.Resize(8, 14, "nearby"); odd == nil || kind == nil || m.Config != c || len(m.Params) > 1 {
			t.Errorf("%v, %v; then %+v with %v", odd, kind, m.Config, m.Params)
		}
	}
}

// ownEncodings are all names of encodings, and some combinations of two.
var ownEncodings = append(position.Names(), "wepe+rope-mixed", "learned+rope-axial", "hybrid+liere", "fope+wepe-bias")

func TestNative_EveryEncoding(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, position := range gomlxtest.Encodings(ownEncodings) {
		c := ownViT(position)
		c.PatchNorm, c.Pool = true, "mean"
		store := stirred(t, c, nil)
		store.SetParam("/learning_rate", 0.1) // a training setting, not exported
		dir := exportedFrom(t, store, c, ExportOptions{Format: formatNative})
		t.Run(position+" comes back", func(t *testing.T) { comesBack(t, store, c, dir) })
		t.Run(position+" without all of its variables", func(t *testing.T) { refusesLessThanAll(t, dir) })
		t.Run(position+" with the variables of others", func(t *testing.T) { refusesUnknownVariables(t, store, c, dir) })
		if !c.Encoding().Folds() {
			// Another format does not support attention encodings, with or without a table.
			t.Run(position+" in an ordinary ViT", func(t *testing.T) { notSupportedElsewhere(t, position) })
		}
	}
}

// inStore is the import whose variables are those of the model below /vit.
func inStore(store *model.Store) *Imported {
	m := &Imported{Variables: map[string]*tensors.Tensor{}}
	for v := range store.IterVariables() {
		if path, ok := below(v, "/vit"); ok {
			m.Variables[path] = v.MustValue()
		}
	}
	return m
}

func comesBack(t *testing.T, store *model.Store, c vit.Config, dir string) {
	images := Noise(c, 2, 5)
	want := gomlxtest.Must(forward(gomlxtest.Backend(), store, "/vit", c, images))(t)
	m := imported(t, dir, ImportOptions{})
	if m.Config != c || len(m.Params) > 0 {
		t.Errorf("%+v, %v", m.Config, m.Params)
	}
	same(t, c.Position, m, inStore(store))
	got, err := m.Logits(gomlxtest.Backend(), images)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, logits %v, want %v", err, got, want)
	}
	again := exported(t, m, ExportOptions{Format: formatNative})
	for _, name := range []string{foreignWeights, foreignConfig, "README.md"} {
		if !bytes.Equal(readFile(t, filepath.Join(dir, name)), readFile(t, filepath.Join(again, name))) {
			t.Errorf("%s differs", name)
		}
	}
}

func refusesLessThanAll(t *testing.T, dir string) {
	whole := imported(t, dir, ImportOptions{})
	for path := range whole.Variables {
		if !strings.HasPrefix(path, positionsPath) {
			continue
		}
		m := imported(t, dir, ImportOptions{})
		delete(m.Variables, path)
		err := m.Load(model.NewStore().Scope("/vit"))
		named := strings.TrimSuffix(path, "/values") // a table counts as one
		if err == nil || !strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "\n") {
			t.Errorf("without %s: %v", path, err)
		}
	}
	if err := whole.Load(model.NewStore().Scope("/vit")); err != nil {
		t.Error(err)
	}
}

// A variable that does not belong to the model's encoding is refused by name, on import and on export.
func refusesUnknownVariables(t *testing.T, store *model.Store, c vit.Config, dir string) {
	file := filepath.Join(dir, foreignWeights)
	raw := readFile(t, file)
	stray := map[string]bool{"x": true, "wepe2/beta_pos": true}
	for _, other := range position.All() {
		for _, variable := range other.Variables { // a directory of variables ends in a slash
			stray[variable+strings.Repeat("x", strings.Count(variable[len(variable)-1:], "/"))] = true
		}
	}
	for name := range stray {
		if c.Encoding().Owns(name) {
			continue
		}
		all := gomlxtest.Must(readAll(raw))(t)
		all[positionsPath+name] = tensors.FromScalar(float32(1))
		writeWeights(t, file, all)
		_, err := Import(dir, ImportOptions{})
		if e := onlyMismatch(t, err); !slices.Equal(e.Unexpected, []string{positionsPath + name + " []"}) ||
			e.Missing != nil || e.Mismatched != nil {
			t.Errorf("%v, want %s unexpected", err, name)
		}
	}
	gomlxtest.Must(store.CreateVariable("/vit/position/x", tensors.FromScalar(float32(1))))(t)
	_, err := Export(filepath.Join(t.TempDir(), "x"), nil, store.Scope("/vit"), c, ExportOptions{Format: formatNative})
	if e := onlyMismatch(t, err); len(e.Unexpected) != 1 {
		t.Errorf("exported with %v", e)
	}
}

func notSupportedElsewhere(t *testing.T, position string) {
	c := ownViT(position)
	for _, format := range []string{formatHF, formatTimm, formatJAX} {
		folded := c
		folded.Position = cmp.Or(c.Encoding().Folded(), c.Position)
		if _, _, err := forExport(format, folded, true, nil); err == nil {
			continue // its code has the same
		}
		_, err := Export(filepath.Join(t.TempDir(), "x"), gomlxtest.Backend(), model.NewStore().Scope("/vit"), c,
			ExportOptions{Format: format})
		if err == nil || !strings.Contains(err.Error(), "cannot store position "+position+":") {
			t.Errorf("to %s: %v", format, err)
		}
	}
}
