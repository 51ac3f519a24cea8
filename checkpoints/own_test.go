// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/internal/strictjson"
	"github.com/wepe-go/wepe/vit"
)

// trainedOn saves a model as package finetune does, its head's weights averaged, and returns the run directory, the
// store and the averaged weights.
func trainedOn(t *testing.T, c vit.Config, change func(*trainedModel, *model.Store)) (dir string, store *model.Store,
	average *tensors.Tensor) {
	t.Helper()
	store = stirred(t, c, nil)
	average = tensors.FromFlatDataAndDimensions(make([]float32, c.Width*c.Classes), c.Width, c.Classes)
	if _, err := store.CreateVariable("/ema/vit/head/weights", average); err != nil {
		t.Fatal(err)
	}
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

func TestTheModelOfATrainingIsImportedWithItsAverages(t *testing.T) {
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
		want := preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{6, 10}, Mean: normalized.Mean, Std: normalized.Std}
		if m.Preprocess == nil || *m.Preprocess != want || !slices.Equal(m.Mean, normalized.Mean[:]) ||
			!slices.Equal(m.Std, normalized.Std[:]) {
			t.Errorf("%s: preprocessing %+v, mean %v, std %v", path, m.Preprocess, m.Mean, m.Std)
		}
		n := 0
		for v := range store.IterVariables() {
			name, ok := below(v, "/vit")
			if !ok {
				continue
			}
			value := v.MustValue()
			if name == "head/weights" {
				value = average
			}
			if n++; m.Variables[name] == nil || !m.Variables[name].Equal(value) {
				t.Errorf("%s: variable %s differs", path, name)
			}
		}
		if n != len(m.Variables) {
			t.Errorf("%s: %d variables, want %d", path, len(m.Variables), n)
		}
	}
	// At another size, and in a format that does not support the encoding.
	m := imported(t, dir, ImportOptions{ImageRows: 8, ImageCols: 4})
	if m.Preprocess.Size != [2]int{8, 4} || m.Config.ImageRows != 8 {
		t.Errorf("%+v, %+v", m.Preprocess, m.Config)
	}
	was, err := m.Logits(gomlxtest.Backend(), Noise(m.Config, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	store = model.NewStore()
	if err := m.Load(store.Scope("/vit")); err != nil {
		t.Fatal(err)
	}
	folded := imported(t, exportedFrom(t, store, m.Config, ExportOptions{}), ImportOptions{})
	is, err := folded.Logits(gomlxtest.Backend(), Noise(m.Config, 2, 3))
	if d, scale := numeric.Difference(is, was); err != nil || d > 1e-6*scale {
		t.Errorf("%v, folded logits differ by %g of %g", err, d, scale)
	}
}

// A field that this version does not know could change the model.
func TestANativeConfigOfANewerVersionIsRefused(t *testing.T) {
	model := string(gomlxtest.Must(json.Marshal(ownViT("learned")))(t))
	newer := strings.TrimSuffix(model, "}") + `, "new": 1}`
	for text, want := range map[string]string{
		`{"model_type": "wepe", "model": ` + model + `}`:                                "",
		`{"model_type": "wepe2", "model": ` + model + `}`:                               `want "wepe"`,
		`{"model_type": "wepe", "model": ` + newer + `}`:                                `model: json: unknown field "new"`,
		`{"model_type": "wepe", "model": ` + model + `, "params": [{"path": "new"}]}`:   `params: "new" is not a`,
		`{"model_type": "wepe", "model": ` + model + `, "params": [{"new": "wepe_x"}]}`: `params: json: unknown field "new"`,
	} {
		var config strictjson.Object
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		_, err := describeNative(config)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	err := json.Unmarshal([]byte(`{"recipe": {"new": 1, "model": `+newer+`}}`), &trainedModel{}) // of a saved run
	if err == nil || err.Error() != `json: unknown field "new"` {
		t.Errorf("a run: %v", err)
	}
}

func TestAnInvalidTrainingCheckpointIsRefused(t *testing.T) {
	gomlxtest.OnGo(t)
	for want, change := range map[string]func(*trainedModel, *model.Store){
		"does not say what model it is of": func(m *trainedModel, _ *model.Store) { m.Recipe.Model.Width = 0 },
		"is no ViT but a dhvt":             func(m *trainedModel, _ *model.Store) { m.Recipe.Architecture = "dhvt" },
		"6 names for 7 classes":            func(m *trainedModel, _ *model.Store) { m.Classes = m.Classes[1:] },
		"3 heads":                          func(m *trainedModel, _ *model.Store) { m.Recipe.Model.Width = 47 },
		"1 that the model lacks: extra":    func(_ *trainedModel, s *model.Store) { s.VariableWithValue("/vit/extra", 1.) },
		"16 that it lacks: block_02":       func(m *trainedModel, _ *model.Store) { m.Recipe.Model.Depth = 3 },
	} {
		dir, _, _ := trainedOn(t, ownViT("wepe"), change)
		_, err := Import(dir, ImportOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") ||
			!strings.HasPrefix(err.Error(), "checkpoints: "+filepath.Join(dir, "best")) &&
				!strings.HasPrefix(err.Error(), "checkpoints: "+dir+" is of another model") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	dir, _, _ := trainedOn(t, ownViT("wepe"), nil)
	putFile(t, filepath.Join(dir, "best", "step-00000005", storeName), []byte("{}"))
	if _, err := Import(dir, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "no intact checkpoint") {
		t.Errorf("%v", err)
	}
}
