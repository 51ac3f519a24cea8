// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
)

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
			if first.Step == all[len(all)-1].Step {
				t.Fatal("the best evaluation is the last: nothing to tell apart")
			}
			want, opening = report.Weights{Name: "best", Step: first.Step}, OpenOptions{}
			equal(t, "validation", row.Validation, first.Metrics)
		}
		again, recorded := done(t, run)
		equal(t, "weights, and again", [2]report.Weights{row.Weights, recorded.Weights}, [2]report.Weights{want, want})
		opened := gomlxtest.Must(opening.Open(run.Backend, run.Dir))(t)
		for name, model := range map[string]*Model{"returned": m, "opened": opened, "again": again} {
			equal(t, fmt.Sprintf("%v, %s", want, name), gomlxtest.Must(model.Evaluate(run.Test))(t), row.Test)
		}
	}
}

func TestPatience_EndsARunThatIsNotResumedNorExtended(t *testing.T) {
	gomlxtest.OnGo(t)
	run := overfits(t, "patience=2;epochs=60")
	for range 2 {
		_, row := done(t, run)
		best, all := bestOf(t, run)
		equal(t, "ended and last evaluated two epochs after the best", [2]int{row.Steps, all[len(all)-1].Step},
			[2]int{best.Step + 2*3, best.Step + 2*3})
		run.Extend = true // as wepe resume
	}
	run.Recipe.Epochs = 61
	refused(t, "an extension", run.fails(t), "cannot be extended")
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
	equal(t, "the first step", first, int(best.Step)+1)
	equal(t, "variables", got.variables, want.variables)
}

func TestExtend_TrainsMoreEpochsOrSteps(t *testing.T) {
	gomlxtest.OnGo(t)
	run := tinyRun(t, "epochs=2", 18)
	run.Dir = t.TempDir()
	done(t, run)
	longer := run
	longer.Recipe.Epochs = 5
	refused(t, "other epochs without Extend", longer.fails(t), "")
	longer.Extend = true
	_, row := done(t, longer)
	_, all := bestOf(t, run)
	equal(t, "steps and evaluations", [2]int{row.Steps, len(all)}, [2]int{5 * all[0].Step, 5})
	longer.Recipe.Epochs = 3
	refused(t, "5 epochs extended to 3", longer.fails(t), "")
	run = tinyRun(t, "epochs=0;warmup_epochs=0;steps=20", 18)
	run.Dir, run.Extend = t.TempDir(), true
	done(t, run)
	run.Recipe.Steps = 50
	_, row = done(t, run)
	_, all = bestOf(t, run) // an evaluation each 2 steps, a tenth of the first 20
	equal(t, "steps and evaluations", [2]int{row.Steps, len(all)}, [2]int{50, 25})
}

// Small validation splits tie often: of 23 images there are 24 accuracies.
func TestRecord_OfEqualAccuraciesTheLowerLossIsBest(t *testing.T) {
	gomlxtest.OnGo(t)
	run := overfits(t, "ema_decay=0.4")
	run.Validation = dataset(23, 5)
	_, row := done(t, run)
	best, all := bestOf(t, run)
	if first := slices.IndexFunc(all,
		func(e report.Eval) bool { return e.Top1 == best.Top1 }); all[first].Step == best.Step {
		t.Fatal("no tie that the loss decides")
	}
	equal(t, "the step of the best", latest(t, run.Dir, checkpoints.BestDir).Step, int64(best.Step))
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
	if _, err := os.Stat(unfinished); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s stays: %v", unfinished, err)
	}
	described := gomlxtest.Must(os.ReadFile(filepath.Join(run.Dir, engine.DescriptionFile)))(t)
	if !slices.Equal(strings.Fields(string(described)), []string{"{", `"seed":`, "7", "}"}) {
		t.Errorf("described as %s", described)
	}
	gomlxtest.NoError(t, os.Remove(filepath.Join(run.Dir, engine.RowsFile)))
	for i := range 2 {
		m, again := done(t, run)
		rows := gomlxtest.Must(report.ReadFiles(filepath.Join(run.Dir, engine.RowsFile)))(t)
		if again.Test != row.Test || again.Test.Images != 29 || len(rows.Results) != 1 {
			t.Errorf("%+v in %d rows, want %+v in one", again.Test, len(rows.Results), row.Test)
		}
		if kept := m.tested.by; i == 0 && (kept == nil || kept.metrics() != row.Test) {
			t.Error("the page of the run would evaluate its images again")
		}
	}
}
