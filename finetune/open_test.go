// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
)

// twoCheckpoints is a finished run whose best weights are those of an earlier step: its best checkpoint is replaced by
// the last one of the same run, interrupted after step 6 of 21.
func twoCheckpoints(t *testing.T) (run Run, early *Model) {
	t.Helper()
	recipe := tiny()
	recipe.EMA = 0.5
	run = Run{Backend: gomlxtest.Backend(), Recipe: recipe, Seed: 5, Train: dataset(47, 1), Dir: t.TempDir()}
	first := run
	first.Dir = t.TempDir()
	stopped(t, first, 6)
	early = gomlxtest.Must(Open(run.Backend, first.Dir, Weights(Last)))(t)
	done(t, run)
	if err := os.RemoveAll(filepath.Join(run.Dir, Best)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(first.Dir, Last), filepath.Join(run.Dir, Best)); err != nil {
		t.Fatal(err)
	}
	return run, early
}

func TestOpenTakesTheWeightsThatAreAskedForAndNamesThem(t *testing.T) {
	fixtures.Each(t, testOpenTakesTheWeightsThatAreAskedForAndNamesThem)
}

func testOpenTakesTheWeightsThatAreAskedForAndNamesThem(t *testing.T) {
	run, early := twoCheckpoints(t)
	want := early.weights(t, "")
	best := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	last := gomlxtest.Must(Open(run.Backend, run.Dir, Weights(Last)))(t)
	if !reflect.DeepEqual(best.weights(t, ""), want) || reflect.DeepEqual(last.weights(t, ""), want) {
		t.Error("the best weights are not the default, or the last are the same")
	}
	earlier, later := report.Weights{Name: Best, Step: 6}, report.Weights{Name: Last, Step: 21}
	for _, c := range []struct {
		m    *Model
		want report.Weights
	}{{best, earlier}, {last, later}, {gomlxtest.Must(Open(run.Backend, run.Dir, Weights(Best), Size(8, 6)))(t), earlier},
		{gomlxtest.Must(Open(run.Backend, run.Dir, Weights(Last), Size(8, 6)))(t), later}} {
		o := c.m.Opened
		if o.Format != checkpoints.FormatCheckpoint || o.Weights != c.want || len(o.SHA256) != 64 {
			t.Errorf("opened %+v, want weights %s", o, c.want)
		}
		if line := o.String(); !strings.HasSuffix(line, ": weights "+c.want.String()) {
			t.Errorf("described as %q", line)
		}
	}
	for v := range best.store.IterVariables() {
		if strings.HasPrefix(v.Path(), "/adamw/") {
			t.Errorf("opening loads %s of the optimizer", v.Path())
		}
	}
	if _, err := best.Evaluate(run.Train); err != nil {
		t.Error(err)
	}

	hf := fixtures.Dir(t, "dinov2_tiny")
	m := gomlxtest.Must(Open(run.Backend, hf))(t)
	if o := m.Opened; o.Path != hf || o.Format != checkpoints.FormatHF || o.Weights != (report.Weights{}) ||
		len(o.SHA256) != 64 {
		t.Errorf("a foreign model opens as %+v", o)
	}
	_, err := Open(run.Backend, hf, Weights(Best))
	refused(t, "the best weights of a foreign model", err, "is no run: it has no best weights")
	_, err = Open(run.Backend, run.Dir, Weights("newest"))
	refused(t, "unknown weights", err, `weights "newest": want "best" or "last"`)
	if err := os.RemoveAll(filepath.Join(run.Dir, Best)); err != nil {
		t.Fatal(err)
	}
	_, err = Open(run.Backend, run.Dir, Weights(Best))
	refused(t, "a run without best weights", err, `has no "best" checkpoint`)
}

// The row of a run, the model that Do returns, and Open all have the same weights.
func TestTheRowOfARunIsMeasuredWithTheWeightsThatOpenTakes(t *testing.T) {
	run, early := twoCheckpoints(t)
	run.Test = dataset(31, 9)
	want := gomlxtest.Must(early.Evaluate(run.Test))(t)
	file := filepath.Join(run.Dir, RowsFile)
	lines := bytes.SplitAfter(gomlxtest.Must(os.ReadFile(file))(t), []byte("\n"))
	if err := os.WriteFile(file, bytes.Join(lines[:len(lines)-2], nil), 0o644); err != nil { // without the result
		t.Fatal(err)
	}
	var said bytes.Buffer
	run.Logger = gomlxtest.Logger(&said)
	m, row := done(t, run)
	opened := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	earlier := report.Weights{Name: Best, Step: 6}
	if row.Test != want || row.Weights != earlier {
		t.Errorf("measured %+v with weights %s, want %+v with %s", row.Test, row.Weights, want, earlier)
	}
	if got := gomlxtest.Must(opened.Evaluate(run.Test))(t); got != want || m.Opened.Weights != earlier {
		t.Errorf("opened, the run has %+v, want %+v; Do returned %s", got, want, m.Opened)
	}
	again, row := done(t, run) // a finished run, whose row is there
	if got := gomlxtest.Must(again.Evaluate(run.Test))(t); got != want || row.Weights != earlier {
		t.Errorf("a finished run returns a model with %+v, want %+v", got, want)
	}
	// ½/√5 = 22.4 %: 5 of 47 images are held out.
	if text := said.String(); !strings.Contains(text, "images=5 standard error of the accuracy=up to 22.4 %") {
		t.Errorf("not said that 5 images cannot choose: %s", text)
	}

	run = tinyRun(t, "validation_part=-1", 30)
	run.Dir = t.TempDir()
	if _, row := done(t, run); row.Weights != (report.Weights{Name: Last, Step: 15}) {
		t.Errorf("without a validation split: weights %s, want the last of step 15", row.Weights)
	}
}

func TestARunAndItsExportsOpenAsTheSameModel(t *testing.T) {
	recipe := tiny()
	recipe.Model.Width, recipe.Model.MLPDim = 16, 0 // what JAX's and timm's files let guess
	recipe.Model.Heads, recipe.Model.PatchSize = 2, 2
	run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Seed: 5, Train: dataset(47, 1), Dir: t.TempDir()}
	done(t, run)
	m := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	if m.Seed() != 5 {
		t.Errorf("seed %d, want 5", m.Seed())
	}
	set := dataset(7, 9)
	want := gomlxtest.Must(m.logitsOf(set))(t)
	for _, format := range []string{checkpoints.FormatHF, checkpoints.FormatTimm, checkpoints.FormatUnfolded} {
		dir := filepath.Join(t.TempDir(), format)
		if _, err := m.Export(dir, checkpoints.ExportOptions{Format: format}); err != nil {
			t.Fatal(err)
		}
		opened := gomlxtest.Must(Open(run.Backend, dir))(t)
		if !slices.Equal(opened.Classes, set.Classes) {
			t.Errorf("%s: classes %q", format, opened.Classes)
		}
		nearLogits(t, format, gomlxtest.Must(opened.logitsOf(set))(t), want)
		if format == checkpoints.FormatUnfolded {
			larger := gomlxtest.Must(Open(run.Backend, dir, Size(8, 6)))(t)
			same := gomlxtest.Must(Open(run.Backend, run.Dir, Size(8, 6)))(t)
			nearLogits(t, "at another size", gomlxtest.Must(larger.logitsOf(set))(t), gomlxtest.Must(same.logitsOf(set))(t))
		}
	}
	_, err := Open(run.Backend, filepath.Join(t.TempDir(), "nothing"))
	refused(t, "a path of nothing", err, "nothing")
}

func TestAModelOfTheHubIsOpenedByItsAddress(t *testing.T) {
	home := t.TempDir()
	cached := filepath.Join(home, "hub", "models--me--demo")
	commit := strings.Repeat("0123abcd", 5)
	demo := os.DirFS("../examples/cifar100/demo/vit")
	if err := os.CopyFS(filepath.Join(cached, "snapshots", commit), demo); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HOME", home)
	t.Setenv("HF_HUB_CACHE", filepath.Join(home, "hub"))
	t.Setenv("HF_HUB_OFFLINE", "1")
	m := gomlxtest.Must(Open(gomlxtest.Backend(), "hf://me/demo@"+commit))(t)
	defer m.Finalize()
	if m.Recipe.Model.Width != 96 || len(m.Classes) != 100 {
		t.Errorf("width %d, %d classes", m.Recipe.Model.Width, len(m.Classes))
	}
	_, err := Open(gomlxtest.Backend(), "hf://me/other")
	refused(t, "a model that is not in the cache", err, "me/other")
}

func TestTheStartOfARunIsDrawnAgain(t *testing.T) {
	run := Run{Backend: gomlxtest.Backend(), Recipe: everything(), Seed: 3, Train: dataset(47, 1), Dir: t.TempDir()}
	set := dataset(5, 9)
	first := begun(t, Run{Backend: run.Backend, Recipe: run.Recipe, Seed: run.Seed, Train: run.Train})
	want := gomlxtest.Must(first.model.logitsOf(set))(t)
	done(t, run)
	nearLogits(
		t,
		"start",
		gomlxtest.Must(gomlxtest.Must(Open(run.Backend, run.Dir, Weights(Start)))(t).logitsOf(set))(t),
		want,
	)

	tuned := Run{Backend: run.Backend, Recipe: everything(), Train: run.Train, From: run.Dir, Dir: t.TempDir()}
	done(t, tuned)
	_, err := Open(run.Backend, tuned.Dir, Weights(Start))
	refused(t, "the start of a fine-tuning", err, "not drawn", run.Dir)
}

func TestATrainedModelOpensAtAnotherSizeByTheRuleOfItsEncoding(t *testing.T) {
	set := dataset(23, 7) // 4×6 pixels
	for _, position := range []string{"none", "learned", "grid2d", "rope-axial", "as2drope", "liere", "wepe", "wepe-bias",
		"hybrid"} {
		dir, model := pretrained(t, func(r *Recipe) { r.Model.Position, r.EMA = position, 0.5 })
		open := func(size [2]int) (*Model, report.Metrics) {
			m, err := Open(gomlxtest.Backend(), dir, Size(size[0], size[1]))
			if err != nil {
				t.Fatalf("%s: %v", position, err)
			}
			metrics, err := m.Evaluate(set)
			if err != nil {
				t.Fatalf("%s: %v", position, err)
			}
			return m, metrics
		}
		want := gomlxtest.Must(model.Evaluate(set))(t)
		if _, got := open([2]int{4, 6}); got != want {
			t.Errorf("%s: at its own size %+v, want %+v", position, got, want)
		}
		m, _ := open([2]int{10, 8})
		if rows, cols := m.Recipe.Model.Rows(), m.Recipe.Model.Cols(); rows != 5 || cols != 4 {
			t.Errorf("%s: a grid of %d×%d, want 5×4", position, rows, cols)
		}
		trained, elsewhere := model.weights(t, ""), m.weights(t, "")
		if _, ok := trained[tablePath]; ok && position != "grid2d" { // tables are resampled, timm's way
			trained[tablePath] = resampled(t, trained[tablePath], model.Recipe.Model, "timm")
		} else if position == "learned" || position == "hybrid" {
			t.Errorf("%s has no table", position)
		}
		if !reflect.DeepEqual(elsewhere, trained) {
			t.Errorf("%s: other weights at another size", position)
		}
	}
	dir, _ := pretrained(t, nil)
	for want, open := range map[string]func() (*Model, error){
		"2×2":         func() (*Model, error) { return Open(gomlxtest.Backend(), dir, Size(5, 8)) },
		"no model in": func() (*Model, error) { return Open(gomlxtest.Backend(), t.TempDir(), Size(4, 6)) },
	} {
		if _, err := open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
