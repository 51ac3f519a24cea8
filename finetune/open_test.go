// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
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
	for _, c := range []struct {
		weights, name string
		step          int
		measured      report.Metrics
	}{
		{"", "best", first.Step, first.Metrics}, {"best", "best", first.Step, first.Metrics},
		{"last", "last", 27, all[len(all)-1].Metrics},
	} {
		for _, size := range [][2]int{{}, {8, 6}} {
			m := gomlxtest.Must(OpenOptions{Weights: c.weights, Size: size}.Open(run.Backend, run.Dir))(t)
			want := report.Weights{Name: c.name, Step: c.step}
			if o := m.Source; o.Format != "checkpoint" || o.Weights != want || len(o.SHA256) != 64 ||
				!strings.Contains(o.String(), want.String()) {
				t.Errorf("opened %s, %+v, want weights %s", o, o, want)
			}
			if size != [2]int{} {
				continue
			}
			equal(t, m.Source.String(), gomlxtest.Must(m.Evaluate(run.Validation))(t), c.measured)
			for v := range m.store.IterVariables() {
				if strings.HasPrefix(v.Path(), "/adamw/") {
					t.Errorf("opening loads %s of the optimizer", v.Path())
				}
			}
		}
	}

	hf := fixtures.Dir(t, "dinov2_tiny")
	m := gomlxtest.Must(Open(run.Backend, hf))(t)
	if o := m.Source; o.Path != hf || o.Format != "hf" || o.Weights != (report.Weights{}) ||
		len(o.SHA256) != 64 {
		t.Errorf("a foreign model opens as %+v", o)
	}
	open := func(path, weights string) error {
		return errorOf(OpenOptions{Weights: weights}.Open(run.Backend, path))
	}
	refused(t, "the best weights of a foreign model", open(hf, "best"), "is not a run: it has no best weights")
	refused(t, "unknown weights", open(run.Dir, "newest"), `weights "newest"`)
	gomlxtest.NoError(t, os.RemoveAll(filepath.Join(run.Dir, checkpoints.BestDir)))
	refused(t, "a run without best weights", open(run.Dir, "best"), `has no "best" checkpoint`)
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
		refused(t, "without ONNX Runtime", err, "-tags=onnx")
		return
	}
	gomlxtest.NoError(t, err)
	defer opened.Finalize()
	if !slices.Equal(opened.Classes, set.Classes) || opened.Headless || opened.Recipe.Augment.Std != m.Recipe.Augment.Std {
		t.Errorf("%q, %+v", opened.Classes, opened.Recipe.Augment)
	}
	want := gomlxtest.Must(m.logitsOf(set))(t)
	nearLogits(t, "evaluation", gomlxtest.Must(opened.logitsOf(set))(t), want)
	opened.infersAs(t, set, want)
	refused(t, "another size", errorOf(OpenOptions{Size: [2]int{8, 6}}.Open(run.Backend, dir)), dir)
	hf := filepath.Join(t.TempDir(), "hf")
	refused(t, "an export", errorOf(opened.Export(hf, checkpoints.ExportOptions{})), "onnx")
	refused(t, "flips", opened.AverageFlips(), "ONNX")
	refused(t, "features", errorOf(opened.Embed("a.png")), "onnx")
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
	refused(t, "an image", errorOf(m.Predict([]string{file}, 3)), dir, "preprocessor_config.json")
	refused(t, "an image to embed", errorOf(m.Embed(file)), "preprocessor_config.json")
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
	if c := m.Recipe.Model; c.ImageRows != 24 || c.ImageCols != 24 {
		t.Fatalf("opened at %d×%d", c.ImageRows, c.ImageCols)
	}
	file := pngFile(t, image.NewRGBA(image.Rect(0, 0, 23, 19)))
	_, predicted := m.Predict([]string{file}, 1)
	_, evaluated := m.Evaluate(&data.InMemory{Info: data.Info{Classes: []string{"a"}}})
	for _, err := range []error{predicted, evaluated} {
		if !errors.Is(err, ErrHeadless) {
			t.Errorf("%v, want ErrHeadless", err)
		}
	}
	inference := gomlxtest.Must(m.Inference())(t)
	fitted := gomlxtest.Must(m.PreprocessImage(&data.Image{Height: 23, Width: 19, Pixels: make([]uint8, 3*23*19)}))(t)
	got := gomlxtest.Must(inference.Batch([]*data.Image{fitted}))(t)
	if got[0].Logits != nil || got[0].Mean == nil {
		t.Errorf("a served backbone has logits %v, features %v", got[0].Logits, got[0].Mean)
	}
	for _, note := range m.Source.Notes {
		if strings.Contains(note, "predictions differ") {
			t.Errorf("at the size of its preprocessing: %s", note)
		}
	}
	if features, err := m.Embed(file); err != nil || len(features) != 1 {
		t.Errorf("%v, %v", features, err)
	}
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
	if m.Recipe.Model.Width != 96 || len(m.Classes) != 100 {
		t.Errorf("width %d, %d classes", m.Recipe.Model.Width, len(m.Classes))
	}
	refused(t, "a model that is not in the cache", errorOf(Open(gomlxtest.Backend(), "hf://me/other")), "me/other")
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
	refused(t, "the start of a fine-tuning", errorOf(start.Open(run.Backend, tuned.Dir)), "not from random ones", run.Dir)
}

func TestOpen_AtAnotherSizeByTheRuleOfTheEncoding(t *testing.T) {
	gomlxtest.OnGo(t)
	set := dataset(23, 7) // 4×6 pixels
	for _, position := range gomlxtest.Encodings([]string{"none", "learned", "grid2d", "rope-axial", "as2drope", "liere",
		"wepe", "wepe-bias", "hybrid"}) {
		dir, model := pretrained(t, func(r *Recipe) { r.Model.Position, r.EMADecay = position, 0.5 })
		open := func(size [2]int) *Model {
			return gomlxtest.Must(OpenOptions{Size: size}.Open(gomlxtest.Backend(), dir))(t)
		}
		own, m := open([2]int{4, 6}), open([2]int{10, 8})
		want := gomlxtest.Must(model.Evaluate(set))(t)
		equal(t, position+" at its own size", gomlxtest.Must(own.Evaluate(set))(t), want)
		gomlxtest.Must(m.Evaluate(set))(t)
		equal(t, position, [2]int{m.Recipe.Model.Rows(), m.Recipe.Model.Cols()}, [2]int{5, 4})
		trained, elsewhere := model.weights(t, ""), m.weights(t, "")
		if _, ok := trained[tablePath]; ok && position != "grid2d" { // tables are resampled, as in timm
			trained[tablePath] = resampled(t, trained[tablePath], model.Recipe.Model, "timm")
		} else if position == "learned" || position == "hybrid" {
			t.Errorf("%s has no table", position)
		}
		equal(t, position+" at another size", elsewhere, trained)
	}
	dir, _ := pretrained(t, nil)
	half := OpenOptions{Size: [2]int{5, 8}}
	refused(t, "rows of half a patch", errorOf(half.Open(gomlxtest.Backend(), dir)), "2×2")
}
