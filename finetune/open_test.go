// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
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

func TestOpenTakesTheWeightsThatAreAskedForAndNamesThem(t *testing.T) {
	fixtures.Each(t, testOpenTakesTheWeightsThatAreAskedForAndNamesThem)
}

func testOpenTakesTheWeightsThatAreAskedForAndNamesThem(t *testing.T) {
	run := overfits(t, "ema=0.4")
	done(t, run)
	first, all := bestOf(t, run)
	best := gomlxtest.Must(Open(run.Backend, run.Dir))(t)
	last := gomlxtest.Must(Open(run.Backend, run.Dir, Weights(Last)))(t)
	for m, want := range map[*Model]report.Metrics{best: first.Metrics, last: all[len(all)-1].Metrics} {
		if got := gomlxtest.Must(m.Evaluate(run.Validation))(t); got != want {
			t.Errorf("%s: %+v, evaluated while it trained %+v", m.Opened, got, want)
		}
	}
	earlier, later := report.Weights{Name: Best, Step: first.Step}, report.Weights{Name: Last, Step: 27}
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

func TestARunAndItsExportsOpenAsTheSameModel(t *testing.T) {
	recipe := everything()
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
	start := gomlxtest.Must(Open(run.Backend, run.Dir, Weights(Start)))(t)
	nearLogits(t, "start", gomlxtest.Must(start.logitsOf(set))(t), want)

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
