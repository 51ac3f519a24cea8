// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
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
		is.Equal(t, path, m.Format+strings.Join(m.Labels, ""), formatCheckpoint+"abcdefg")
		is.Equal(t, path, m.Config, c)
		is.Equal(t, path, m.Params, args("wepe_alpha_u", 0.25))
		is.Equal(t, path, m.Preprocess, &preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{6, 10},
			Mean: normalized.Mean, Std: normalized.Std})
		is.Equal(t, path, [][]float64{m.Mean, m.Std}, [][]float64{normalized.Mean[:], normalized.Std[:]})
		all := inStore(store)
		all.Variables["head/weights"] = average
		same(t, path, m, all)
	}
	// At another size, and in a format that does not support the encoding.
	m := imported(t, dir, ImportOptions{ImageRows: 8, ImageCols: 4})
	is.Equal(t, "the size", [][2]int{m.Preprocess.Size, {m.Config.ImageRows, m.Config.ImageCols}}, [][2]int{{8, 4}, {8,
		4}})
	// A recipe with a mean alone, and preprocessing, which older checkpoints do not have.
	covers := preprocess.Settings{Resize: preprocess.ResizeCover, Size: [2]int{6, 10}, Crop: [2]int{6, 10},
		Mean: normalized.Mean}
	other, _, _ := trainedOn(t, c, func(m *trainedModel, _ *model.Store) {
		m.Preprocess, m.Recipe.Augment.Std = covers, [3]float64{}
	})
	with := imported(t, other, ImportOptions{})
	is.Equal(t, "preprocessing", with.Preprocess, &covers)
	is.Equal(t, "mean and std", [][]float64{with.Mean, with.Std}, [][]float64{covers.Mean[:], {1, 1, 1}})
	images := Noise(m.Config, 2, 3)
	folded := imported(t, exported(t, m, ExportOptions{}), ImportOptions{})
	near(t, "folded", folded.logits(t, images), m.logits(t, images), 1e-6)
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
		refuses(t, fmt.Sprint(i), is.ErrorOf(Import(dir, ImportOptions{})), c.want, c.names)
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
		outcome(t, text, is.ErrorOf(describeNative(object(t, text))), names)
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
			refuses(t, dir, is.ErrorOf(Import(dir, o)), asked, names)
		}
		m := imported(t, dir, ImportOptions{})
		check(t, is.ErrorOf(m.Resize(7, 10, "")) != nil && is.ErrorOf(m.Resize(8, 14, "nearby")) != nil && m.Config == c &&
			len(m.Params) <= 1, "the model is changed: %+v with %v", m.Config, m.Params)
	}
}

func TestNative_EveryEncoding(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, position := range gomlxtest.Encodings(append(position.Names(), "wepe+rope-mixed", "learned+rope-axial",
		"hybrid+liere", "fope+wepe-bias")) {
		c := ownViT(position)
		c.PatchNorm, c.Pool = true, "mean"
		store := stirred(t, c, nil)
		store.SetParam("/learning_rate", 0.1) // a training setting, not exported
		dir := exportedFrom(t, store, c, ExportOptions{Format: formatNative})
		t.Run(position+" comes back", func(t *testing.T) {
			images := Noise(c, 2, 5)
			m := imported(t, dir, ImportOptions{})
			is.Equal(t, "model", m.Config, c)
			is.Equal(t, "hyperparameters", len(m.Params), 0)
			same(t, c.Position, m, inStore(store))
			near(t, "logits", m.logits(t, images), logitsBelow(t, store, "/vit", c, images), 0)
			sameBytes(t, dir, exported(t, m, ExportOptions{Format: formatNative}), foreignWeights, foreignConfig, "README.md")
		})
		t.Run(position+" without all of its variables", func(t *testing.T) {
			large, store := c, gomlxtest.Must(store.Clone())(t)
			large.ImageRows, large.ImageCols = 2048, 2048
			store.Scope("/vit").SetParams(large.TrainedGrid()) // of tables that no file has, and nothing draws
			whole, dir := imported(t, dir, ImportOptions{}), exportedFrom(t, store, c, ExportOptions{Format: formatNative})
			file := filepath.Join(dir, foreignWeights)
			raw := readFile(t, file)
			for path := range whole.Variables {
				if !strings.HasPrefix(path, positionsPath) {
					continue
				}
				all := gomlxtest.Must(readAll(raw))(t)
				delete(all, path)
				writeWeights(t, file, all)
				_, err := campaign.Malformed(t, func() error { return is.ErrorOf(Import(dir, ImportOptions{})) })
				outcome(t, "without "+path, err, strings.TrimSuffix(path, "/values")) // a table counts as one
				part := *whole
				part.Variables = maps.Clone(whole.Variables)
				delete(part.Variables, path)
				err = part.Load(model.NewStore().Scope("/vit"))
				outcome(t, "loaded without "+path, err, strings.TrimSuffix(path, "/values"))
			}
			gomlxtest.NoError(t, whole.Load(model.NewStore().Scope("/vit")))
		})
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
		e := onlyMismatch(t, is.ErrorOf(Import(dir, ImportOptions{})))
		is.Equal(t, name, *e, MismatchError{Path: e.Path, Unexpected: []string{positionsPath + name + " []"}})
	}
	gomlxtest.Must(store.CreateVariable("/vit/position/x", tensors.FromScalar(float32(1))))(t)
	_, err := Export(filepath.Join(t.TempDir(), "x"), nil, store.Scope("/vit"), c, ExportOptions{Format: formatNative})
	is.Equal(t, "exported with others", len(onlyMismatch(t, err).Unexpected), 1)
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
		outcome(t, format, err, "cannot store position "+position+":")
	}
}

// logits runs a model in its store.
func (m *Model) logits(t *testing.T, images *tensors.Tensor) []float32 {
	t.Helper()
	return logitsBelow(t, m.Scope.Store(), m.Scope.Scope(), m.Config, images)
}

// GoMLX's trainer trains a loaded model, and its checkpoints and an export bring it back.
func TestLoad_TrainsAndComesBackWithGoMLX(t *testing.T) {
	gomlxtest.OnGo(t)
	b, c := gomlxtest.Backend(), ownViT("learned")
	from := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative, Preprocess: &normalized})
	store := model.NewStore()
	m := gomlxtest.Must(Load(b, store.Scope("/some/vit"), from, Options{ImportOptions: ImportOptions{ImageRows: 8,
		ImageCols: 14, Classes: 3}, Position: "hybrid"}))(t)
	images, labels := Noise(m.Config, 5, 7), tensors.FromValue([][]int32{{0}, {2}, {1}, {2}, {0}})
	trainer := train.NewTrainer(b, store, m.ModelFn(nil), loss.SparseCategoricalCrossEntropyLogits,
		optimizer.Adam().LearningRate(1e-3).Done(), nil, nil)
	var losses []float64
	for range 4 {
		metrics := gomlxtest.Must(trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{images},
			Labels: []*tensors.Tensor{labels}}))(t)
		losses = append(losses, gomlxtest.Values(t, metrics[0])[0])
	}
	check(t, losses[3] < losses[0], "losses %v", losses)
	want := m.logits(t, images)

	handler := gomlxtest.Must(checkpoint.Build(store).Dir(t.TempDir()).Keep(1).Done())(t)
	gomlxtest.NoError(t, handler.Save())
	theirs := model.NewStore()
	gomlxtest.Must(checkpoint.Load(theirs).Dir(handler.Dir()).Immediate().Done())(t)
	near(t, "GoMLX's checkpoint", logitsBelow(t, theirs, "/some/vit", m.Config, images), want, 0)

	out := filepath.Join(t.TempDir(), "model")
	gomlxtest.Must(m.Export(out, b, ExportOptions{Format: formatTimm}))(t) // the table folded
	near(t, "an export", imported(t, out, ImportOptions{}).logits(t, images), want, 1e-5)
}

// Adapters of rank 2 on six matrices of each of two blocks are trained, and added to the matrices in the files; a model
// is the same after an export or its refusal. At the root of a store the variables of others are not the model's.
func TestModelExport_LeavesTheModelUnchanged(t *testing.T) {
	b, c := gomlxtest.Backend(), ownViT("wepe")
	from := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	for _, scope := range []string{"/some/vit", "/"} {
		store, trained := stirred(t, c, nil), 0 // with another model at /vit
		m := gomlxtest.Must(Load(b, store.Scope(scope), from, Options{LoRA: 2, LoRAMLP: true}))(t)
		store.RootScope().VariableWithValue(model.RNGStateVariableName, []uint64{1, 2, 3})
		images, before := Noise(c, 2, 7), map[string][]byte{}
		plain := m.logits(t, images)
		for v := range store.IterVariables() {
			if v.Trainable && strings.HasPrefix(v.Path(), "/lora/") {
				trained++
			}
			if strings.HasSuffix(v.Path(), "/b") {
				gomlxtest.NoError(t, v.SetValue(tensors.FromFlatDataAndDimensions(slices.Repeat([]float32{0.1, -0.2},
					v.Shape().Size()/2), v.Shape().Dimensions...)))
			}
			before[v.Path()] = bytesOf(t, v.MustValue())
		}
		want := m.logits(t, images)
		check(t, trained == 2*6*2 && plain[0] != want[0],
			"%s: %d factors of adapters, logits %v, stirred %v", scope, trained, plain, want)
		for format, epsilon := range map[string]float64{formatNative: 0, formatTimm: 0, formatHF: 0, formatJAX: 7} {
			out := filepath.Join(t.TempDir(), "model")
			_, err := m.Export(out, b, ExportOptions{Format: format, Epsilon: epsilon})
			if is.Equal(t, fmt.Sprint(scope, format, err), err == nil, epsilon == 0); err == nil {
				near(t, scope+" "+format, imported(t, out, ImportOptions{}).logits(t, images), want, 1e-5)
			}
			for v := range store.IterVariables() {
				check(t, bytes.Equal(bytesOf(t, v.MustValue()), before[v.Path()]), "%s as %s: %s changed", scope, format, v.Path())
			}
		}
	}
}

func TestLoad_Refusals(t *testing.T) {
	c := ownViT("rope-axial")
	from := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	for i, test := range []struct {
		o     Options
		names string
	}{
		{Options{Params: args("rope_theta", 50)}, ""}, {Options{Params: args("rope_thetta", 50.0)}, "rope_thetta"},
		{Options{Params: args("wepe_start", 0.5)}, "wepe_start"}, {Options{Params: args("rope_theta", "x")}, "rope_theta"},
		{Options{Params: args("rope_theta", 0.5)}, "rope_theta"}, {Options{LoRA: -1}, "LoRA"},
		{Options{LoRAMLP: true}, "LoRAMLP"}, {Options{LoRA: 3, LoRAMLP: true}, ""},
	} {
		_, err := Load(gomlxtest.Backend(), model.NewStore().Scope("/vit"), from, test.o)
		outcome(t, fmt.Sprintf("%d, %+v", i, test.o), err, test.names)
	}
}

// What is added to a pretrained model leaves its function unchanged; what replaces its encoding does not.
func TestLoad_AddedEncodingsStartAtTheModel(t *testing.T) {
	b, c := gomlxtest.Backend(), ownViT("learned")
	from := exportedFrom(t, stirred(t, c, nil), c, ExportOptions{Format: formatNative})
	images := Noise(c, 2, 7)
	want := imported(t, from, ImportOptions{}).logits(t, images)
	for name, unchanged := range map[string]bool{"": true, "learned+wepe-v": true, "learned+wepe-bias": true,
		"learned+rope-axial": false, "none": false, "wepe": false} {
		m := gomlxtest.Must(Load(b, model.NewStore().Scope("/vit"), from, Options{Position: name}))(t)
		got := gomlxtest.RunModel(t, m.Scope.Store(), func(_ *model.Scope, in []*Node) []*Node {
			return m.ModelFn(nil)(m.Scope, nil, in)
		}, images)[0]
		largest := 0.0
		for i := range got {
			largest = max(largest, math.Abs(got[i]-float64(want[i])))
		}
		check(t, (largest < 1e-5) == unchanged, "%q: logits differ by %g", name, largest)
		_, added, _ := strings.Cut(name, "+")
		told(t, name, m.Report, "positions: "+added+" ", added == "rope-axial")
	}
}
