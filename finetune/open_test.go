// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/report"
)

func TestOpen_LoadsTheRequestedWeights(t *testing.T) {
	fixtures.Each(t, testOpenLoadsTheRequestedWeights)
}

func testOpenLoadsTheRequestedWeights(t *testing.T) {
	gomlxtest.OnGo(t)
	run := overfits(t, "ema_decay=0.4")
	done(t, run)
	first, all := bestOf(t, run)
	for weights, row := range map[string]report.Eval{"": first, "best": first, "last": all[len(all)-1]} {
		want := report.Weights{Name: cmp.Or(weights, "best"), Step: row.Step}
		for _, size := range [][2]int{{8, 6}, {}} {
			m := gomlxtest.Must(OpenOptions{Weights: weights, Size: size}.Open(run.Backend, run.Dir))(t)
			is.Equal(t, m.Source.String(), []any{m.Source.Format, m.Source.Weights, len(m.Source.SHA256)},
				[]any{"checkpoint", want, 64})
			if is.Said(t, "source", m.Source.String(), want.String()); size == [2]int{} {
				is.Equal(t, m.Source.String(), gomlxtest.Must(m.Evaluate(run.Validation))(t), row.Metrics)
			}
			for v := range m.store.IterVariables() {
				is.Equal(t, v.Path()+" is of the optimizer", strings.HasPrefix(v.Path(), "/adamw/"), false)
			}
		}
	}

	hf := fixtures.Dir(t, "dinov2_tiny")
	m := gomlxtest.Must(Open(run.Backend, hf))(t)
	is.Equal(t, "a foreign model", []any{m.Source.Path, m.Source.Format, m.Source.Weights, len(m.Source.SHA256)},
		[]any{hf, "hf", report.Weights{}, 64})
	open := func(path, weights string) error {
		return is.ErrorOf(OpenOptions{Weights: weights}.Open(run.Backend, path))
	}
	is.Refused(t, "the best weights of a foreign model", open(hf, "best"), "is not a run: it has no best weights")
	is.Refused(t, "unknown weights", open(run.Dir, "newest"), `weights "newest"`)
	gomlxtest.NoError(t, os.RemoveAll(filepath.Join(run.Dir, checkpoints.BestDir)))
	is.Refused(t, "a run without best weights", open(run.Dir, "best"), `has no "best" checkpoint`)
}

// Logits of ONNX Runtime are the run's, in a program that has it; what needs weights is refused.
func TestExport_OfONNXOpensAsTheRun(t *testing.T) {
	gomlxtest.OnGo(t)
	recipe := everything()
	recipe.Model.Position = "learned"
	run := saved(t, recipe, 47)
	m, _ := done(t, run)
	set, dir := dataset(7, 9), filepath.Join(t.TempDir(), "onnx")
	gomlxtest.Must(m.Export(dir, checkpoints.ExportOptions{Format: "onnx"}))(t)
	opened, err := Open(run.Backend, dir)
	if _, none := checkpoints.OpenONNX(filepath.Join(dir, "model.onnx"), m.Recipe.Model); none != nil {
		is.Refused(t, "without ONNX Runtime", err, "-tags=onnx")
		return
	}
	gomlxtest.NoError(t, err)
	defer opened.Finalize()
	is.Equal(t, "classes", opened.Classes, set.Classes)
	is.Equal(t, "no head", opened.Headless, false)
	is.Equal(t, "std", opened.Recipe.Augment.Std, m.Recipe.Augment.Std)
	want := gomlxtest.Must(m.logitsOf(set))(t)
	nearLogits(t, "evaluation", gomlxtest.Must(opened.logitsOf(set))(t), want)
	opened.infersAs(t, set, want)
	is.Refused(t, "another size", is.ErrorOf(OpenOptions{Size: [2]int{8, 6}}.Open(run.Backend, dir)), dir)
	hf := filepath.Join(t.TempDir(), "hf")
	is.Refused(t, "an export", is.ErrorOf(opened.Export(hf, checkpoints.ExportOptions{})), "onnx")
	is.Refused(t, "flips", opened.AverageFlips(), "ONNX")
	is.Refused(t, "features", is.ErrorOf(opened.Embed("a.png")), "onnx")
}

// Without its file the preprocessing of a model is unknown: images scaled otherwise get other classes.
func TestOpen_WithoutPreprocessingRefusesImages(t *testing.T) {
	gomlxtest.OnGo(t)
	dir := filepath.Join(t.TempDir(), "vit")
	gomlxtest.NoError(t, os.CopyFS(dir, os.DirFS("../examples/cifar100/demo/vit")))
	gomlxtest.NoError(t, os.Remove(filepath.Join(dir, "preprocessor_config.json")))
	m := gomlxtest.Must(Open(gomlxtest.Backend(), dir))(t)
	defer m.Finalize()
	file := pngFile(t, image.NewGray(image.Rect(0, 0, 7, 5)))
	is.Refused(t, "an image", is.ErrorOf(m.Predict([]string{file}, 3)), dir, "preprocessor_config.json")
	is.Refused(t, "an image to embed", is.ErrorOf(m.Embed(file)), "preprocessor_config.json")
}

// As DINOv2, it has positions for another size than that of its images, and no head.
func TestOpen_ABackboneHasFeaturesAlone(t *testing.T) {
	gomlxtest.OnGo(t)
	dir := t.TempDir()
	gomlxtest.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(fixtures.Dir(t, "families"), "ViTMAEModel"))))
	const processor = `{"image_processor_type": "ViTImageProcessor", "do_resize": true, "do_normalize": true,
		"resample": 3, "size": {"height": 24, "width": 24}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}`
	gomlxtest.NoError(t, os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(processor), 0o600))
	m := gomlxtest.Must(Open(gomlxtest.Backend(), dir))(t)
	is.Equal(t, "opened at", [2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols}, [2]int{24, 24})
	file := pngFile(t, image.NewRGBA(image.Rect(0, 0, 23, 19)))
	_, predicted := m.Predict([]string{file}, 1)
	_, evaluated := m.Evaluate(&data.InMemory{Info: data.Info{Classes: []string{"a"}}})
	headless := [2]bool{errors.Is(predicted, ErrHeadless), errors.Is(evaluated, ErrHeadless)}
	is.Equal(t, fmt.Sprint(predicted, ", ", evaluated, ": both are ErrHeadless"), headless, [2]bool{true, true})
	inference := gomlxtest.Must(m.Inference())(t)
	fitted := gomlxtest.Must(m.PreprocessImage(&data.Image{Height: 23, Width: 19, Pixels: make([]uint8, 3*23*19)}))(t)
	is.Equal(t, "of no images", len(gomlxtest.Must(inference.Batch(nil))(t)), 0)
	got := gomlxtest.Must(inference.Batch([]*data.Image{fitted}))(t)
	served := [2]bool{got[0].Logits != nil, got[0].Mean != nil}
	is.Equal(t, "a served backbone has logits, features", served, [2]bool{false, true})
	notes := strings.Join(m.Source.Notes, "\n")
	is.Equal(t, "at the size of its preprocessing: "+notes, strings.Contains(notes, "predictions differ"), false)
	is.Equal(t, "features", len(gomlxtest.Must(m.Embed(file))(t)), 1)
}

func TestOpen_OfTheHub(t *testing.T) {
	gomlxtest.OnGo(t)
	home := t.TempDir()
	cached := filepath.Join(home, "hub", "models--me--demo")
	commit := strings.Repeat("0123abcd", 5)
	demo := os.DirFS("../examples/cifar100/demo/vit")
	gomlxtest.NoError(t, os.CopyFS(filepath.Join(cached, "snapshots", commit), demo))
	t.Setenv("HF_HOME", home)
	t.Setenv("HF_HUB_CACHE", filepath.Join(home, "hub"))
	t.Setenv("HF_HUB_OFFLINE", "1")
	m := gomlxtest.Must(Open(gomlxtest.Backend(), "hf://me/demo@"+commit))(t)
	defer m.Finalize()
	is.Equal(t, "width and classes", [2]int{m.Recipe.Model.Width, len(m.Classes)}, [2]int{96, 100})
	is.Refused(t, "a model that is not in the cache", is.ErrorOf(Open(gomlxtest.Backend(), "hf://me/other")), "me/other")
}

func TestOpen_DrawsTheStartOfARunAgain(t *testing.T) {
	gomlxtest.OnGo(t)
	run, set := saved(t, everything(), 47), dataset(5, 9)
	run.Seed = 3
	first := run
	first.Dir = ""
	want := gomlxtest.Must(begun(t, first).model.logitsOf(set))(t)
	done(t, run)
	start := OpenOptions{Weights: checkpoints.Start}
	drawn := gomlxtest.Must(start.Open(run.Backend, run.Dir))(t)
	nearLogits(t, "start", gomlxtest.Must(drawn.logitsOf(set))(t), want)

	tuned := saved(t, everything(), 47)
	tuned.From = run.Dir
	done(t, tuned)
	is.Refused(t, "the start of a fine-tuning", is.ErrorOf(start.Open(run.Backend, tuned.Dir)), "not from random ones",
		run.Dir)
}

func TestOpen_AtAnotherSizeByTheRuleOfTheEncoding(t *testing.T) {
	gomlxtest.OnGo(t)
	set := dataset(23, 7) // 4×6 pixels
	for _, position := range gomlxtest.Encodings([]string{"none", "learned", "grid2d", "rope-axial", "as2drope", "liere",
		"wepe", "wepe-bias", "hybrid"}) {
		dir, model := pretrained(t, "ema_decay=0.5;model.position="+position)
		open := func(size [2]int) *Model {
			return gomlxtest.Must(OpenOptions{Size: size}.Open(gomlxtest.Backend(), dir))(t)
		}
		own, m := open([2]int{4, 6}), open([2]int{10, 8})
		want := gomlxtest.Must(model.Evaluate(set))(t)
		is.Equal(t, position+" at its own size", gomlxtest.Must(own.Evaluate(set))(t), want)
		gomlxtest.Must(m.Evaluate(set))(t)
		is.Equal(t, position, [2]int{m.Recipe.Model.Rows(), m.Recipe.Model.Cols()}, [2]int{5, 4})
		trained, elsewhere := model.weights(t, ""), m.weights(t, "")
		if _, ok := trained[tablePath]; ok && position != "grid2d" { // tables are resampled, as in timm
			trained[tablePath] = resampled(t, trained[tablePath], model.Recipe.Model, "timm")
		} else if position == "learned" || position == "hybrid" {
			t.Errorf("%s has no table", position)
		}
		is.Equal(t, position+" at another size", elsewhere, trained)
	}
	dir, _ := pretrained(t, "")
	half := OpenOptions{Size: [2]int{5, 8}}
	is.Refused(t, "rows of half a patch", is.ErrorOf(half.Open(gomlxtest.Backend(), dir)), "2×2")
}

func TestOpen_RefusesACheckpointThatLacksAVariable(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, tiny(), 41)
	model, _ := done(t, run)
	last := latest(t, run.Dir, checkpoints.BestDir)
	const lost = "/vit/block_01/norm2/gain"
	saver := checkpoints.Saver{Dir: filepath.Join(run.Dir, checkpoints.BestDir),
		Omit: func(path string) bool { return path == lost }}
	gomlxtest.Must(saver.Save(model.store, last.Step+1000, last.Meta))(t)
	opened := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	for range 2 { // again: the first program has drawn it
		_, err := opened.Evaluate(dataset(7, 2))
		var mismatch *checkpoints.MismatchError
		if !errors.As(err, &mismatch) || len(mismatch.Missing) != 1 || !strings.Contains(mismatch.Missing[0], lost) {
			t.Errorf("evaluating gave %v, want a mismatch that names %s", err, lost)
		}
	}
}

func TestOpen_RefusesWhatIsNoCheckpointOfAModel(t *testing.T) {
	dir := t.TempDir()
	is.Refused(t, "an empty directory", is.ErrorOf(Open(gomlxtest.Backend(), dir)), dir)
	recipe := gomlxtest.Must(tiny().fit(dataset(9, 1).Describe()))(t)
	saver := checkpoints.Saver{Dir: filepath.Join(dir, checkpoints.LastDir)}
	for want, meta := range map[string]any{
		"1 names for 7 classes": state{Recipe: recipe, Classes: []string{"a"}},
		"epochs is 0":           state{},
		"cannot unmarshal":      7,
		`unknown field "new"`:   map[string]any{"recipe": map[string]any{"model": map[string]any{"new": 1}}},
		"of a detector":         map[string]any{"recipe": map[string]any{"detector": struct{}{}}, "from": "a1"}, // a text
	} {
		path := gomlxtest.Must(saver.Save(model.NewStore(), 1, meta))(t)
		is.Refused(t, want, is.ErrorOf(Open(gomlxtest.Backend(), dir)), want, path)
	}
}

// overfits is a run whose best evaluation is not its last: seven images of noise, at a high rate.
func overfits(t *testing.T, settings string) Run {
	run := tinyRun(t, "epochs=9;learning_rate=0.3;warmup_epochs=0;optimizer.clip_norm=0;"+settings, 18)
	run.Validation, run.Test = dataset(23, 7), dataset(29, 6)
	run.Dir = t.TempDir()
	return run
}

// bestOf is the evaluation of the highest accuracy, of equal ones that of the lower loss.
func bestOf(t *testing.T, run Run) (best report.Eval, all []report.Eval) {
	all = gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t).Evals
	best = all[0]
	for _, e := range all {
		if e.Top1 > best.Top1 || e.Top1 == best.Top1 && e.Loss < best.Loss {
			best = e
		}
	}
	return best, all
}

// The row, the returned model and the opened one have the best weights, or the last on request or without validation;
// so has a run that is finished already.
func TestRun_EvaluatesTheWeightsThatOpenLoads(t *testing.T) {
	gomlxtest.OnGo(t)
	best, last, unheld := overfits(t, "ema_decay=0.4"), overfits(t, "ema_decay=0.4"), overfits(t, "val_fraction=-1")
	last.Weights, unheld.Validation = checkpoints.LastDir, nil
	for i, run := range []Run{best, last, unheld} {
		m, row := done(t, run)
		want, opening := report.Weights{Name: "last", Step: 27}, OpenOptions{Weights: checkpoints.LastDir}
		if i == 0 {
			first, all := bestOf(t, run)
			is.Equal(t, "the best is the last: nothing to tell apart", first.Step == all[len(all)-1].Step, false)
			want, opening = report.Weights{Name: "best", Step: first.Step}, OpenOptions{}
			is.Equal(t, "validation", row.Validation, first.Metrics)
		}
		again, recorded := done(t, run)
		is.Equal(t, "weights, and again", [2]report.Weights{row.Weights, recorded.Weights}, [2]report.Weights{want, want})
		opened := gomlxtest.Must(opening.Open(run.Backend, run.Dir))(t)
		for name, model := range map[string]*Model{"returned": m, "opened": opened, "again": again} {
			is.Equal(t, fmt.Sprintf("%v, %s", want, name), gomlxtest.Must(model.Evaluate(run.Test))(t), row.Test)
		}
	}
	best.Test = dataset(31, 8) // of a finished run
	other, row := done(t, best)
	is.Equal(t, "other test images", row.Test, gomlxtest.Must(other.Evaluate(best.Test))(t))
	best.Validation = dataset(19, 9)
	is.Equal(t, "other validation images", otherRun(best.fails(t)).Field, "validation data")
}

func TestPatience_EndsARunThatIsNotResumedNorExtended(t *testing.T) {
	gomlxtest.OnGo(t)
	run := overfits(t, "patience=2;epochs=60")
	for range 2 {
		_, row := done(t, run)
		best, all := bestOf(t, run)
		is.Equal(t, "ended and last evaluated two epochs after the best", [2]int{row.Steps, all[len(all)-1].Step},
			[2]int{best.Step + 2*3, best.Step + 2*3})
		run.Extend = true // as wepe resume
	}
	gomlxtest.NoError(t, os.RemoveAll(filepath.Join(run.Dir, checkpoints.BestDir)))
	_, row := done(t, run)
	is.Equal(t, "without the best it does not go on", row.Weights, report.Weights{Name: "last", Step: row.Steps})
	run.Recipe.Epochs = 61
	is.Refused(t, "an extension", run.fails(t), "cannot be extended")
}

func TestResume_TakesTheBestForADamagedLastCheckpoint(t *testing.T) {
	gomlxtest.OnGo(t)
	run := overfits(t, "")
	want := finished(t, run)
	best := latest(t, run.Dir, checkpoints.BestDir)
	last := latest(t, run.Dir, checkpoints.LastDir)
	gomlxtest.NoError(t, os.WriteFile(filepath.Join(last.Path, "variables.safetensors"), []byte("damaged"), 0o644))
	first := 0
	run.Progress = func(p engine.Progress) { first = cmp.Or(first, p.Step) }
	got := finished(t, run)
	is.Equal(t, "the first step", first, int(best.Step)+1)
	is.Equal(t, "variables", got.variables, want.variables)
}

func TestResume_ADamagedBestCheckpointIsReplacedByTheBestFromHereOn(t *testing.T) {
	gomlxtest.OnGo(t)
	run := overfits(t, "")
	done(t, run)
	best := latest(t, run.Dir, checkpoints.BestDir)
	gomlxtest.NoError(t, os.WriteFile(filepath.Join(best.Path, "variables.safetensors"), []byte("damaged"), 0o644))
	_, row := done(t, run)
	is.Equal(t, "weights of the finished run", row.Weights, report.Weights{Name: checkpoints.LastDir, Step: row.Steps})
	run.Extend, run.Recipe.Epochs = true, run.Recipe.Epochs+1
	_, row = done(t, run)
	is.Equal(t, "weights after another epoch", row.Weights, report.Weights{Name: checkpoints.BestDir, Step: row.Steps})
}

func TestExtend_TrainsMoreEpochsOrSteps(t *testing.T) {
	gomlxtest.OnGo(t)
	run := saved(t, gomlxtest.Must(tiny().Set("epochs=2"))(t), 18)
	done(t, run)
	longer := run
	longer.Recipe.Epochs = 5
	is.Refused(t, "other epochs without Extend", longer.fails(t))
	longer.Extend = true
	_, row := done(t, longer)
	_, all := bestOf(t, run)
	is.Equal(t, "steps and evaluations", [2]int{row.Steps, len(all)}, [2]int{5 * all[0].Step, 5})
	longer.Recipe.Epochs = 3
	is.Refused(t, "5 epochs extended to 3", longer.fails(t))
	run = tinyRun(t, "epochs=0;warmup_epochs=0;steps=20", 18)
	run.Dir, run.Extend = t.TempDir(), true
	done(t, run)
	run.Recipe.Steps = 50
	_, row = done(t, run)
	_, all = bestOf(t, run) // an evaluation each 2 steps, a tenth of the first 20
	is.Equal(t, "steps and evaluations", [2]int{row.Steps, len(all)}, [2]int{50, 25})
}

// Small validation splits tie often: of 23 images there are 24 accuracies.
func TestRecord_OfEqualAccuraciesTheLowerLossIsBest(t *testing.T) {
	gomlxtest.OnGo(t)
	run := overfits(t, "ema_decay=0.4")
	run.Validation = dataset(23, 5)
	_, row := done(t, run)
	best, all := bestOf(t, run)
	first := slices.IndexFunc(all, func(e report.Eval) bool { return e.Top1 == best.Top1 })
	is.Equal(t, "no tie that the loss decides", all[first].Step == best.Step, false)
	is.Equal(t, "the step of the best", latest(t, run.Dir, checkpoints.BestDir).Step, int64(best.Step))
	var log strings.Builder
	run.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if _, again := done(t, run); again.Weights != row.Weights || strings.Contains(log.String(), "gone") {
		t.Errorf("repeated: %v, logged %q", again.Weights, &log)
	}
	gomlxtest.NoError(t, os.RemoveAll(filepath.Join(run.Dir, checkpoints.BestDir)))
	if _, again := done(t, run); again.Weights.Name != checkpoints.LastDir || !strings.Contains(log.String(), "gone") {
		t.Errorf("without its best weights: %v, logged %q", again.Weights, &log)
	}
}

// A finished run whose figure is gone draws it again, one whose rows are gone is evaluated again, once; what a killed
// process left unfinished goes.
func TestRun_RepeatedCompletesItsDirectory(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t, "epochs=1", 18)
	run.Test, run.Dir, run.Description = dataset(29, 2), t.TempDir(), map[string]int{"seed": 7}
	_, row := done(t, run)
	curves, unfinished := filepath.Join(run.Dir, "curves.png"), filepath.Join(run.Dir, "curves.png.tmp-17")
	gomlxtest.NoError(t, errors.Join(os.Remove(curves), os.WriteFile(unfinished, nil, 0o600)))
	done(t, run)
	gomlxtest.Must(os.Stat(curves))(t)
	is.Equal(t, unfinished+" is gone", errors.Is(is.ErrorOf(os.Stat(unfinished)), fs.ErrNotExist), true)
	described := gomlxtest.Must(os.ReadFile(filepath.Join(run.Dir, engine.DescriptionFile)))(t)
	is.Equal(t, "described", strings.Fields(string(described)), []string{"{", `"seed":`, "7", "}"})
	gomlxtest.NoError(t, os.Remove(filepath.Join(run.Dir, engine.RowsFile)))
	for i := range 2 {
		m, again := done(t, run)
		rows := gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t)
		is.Equal(t, "test", again.Test, row.Test)
		is.Equal(t, "test images, results", [2]int{again.Test.Images, len(rows.Results)}, [2]int{29, 1})
		if kept := m.tested.by; i == 0 && (kept == nil || kept.metrics() != row.Test) {
			t.Error("the page of the run would evaluate its images again")
		}
	}
}
