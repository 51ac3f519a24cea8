// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/report"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// finished runs to the end and returns the bytes of the last checkpoint and the rows without what measures time.
func finished(t *testing.T, run Run) (variables []byte, rows report.Rows) {
	t.Helper()
	if _, _, err := run.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	last, _, err := checkpoints.Latest(filepath.Join(run.Dir, lastDir))
	if err != nil {
		t.Fatal(err)
	}
	if variables, err = os.ReadFile(filepath.Join(last.Path, "variables.safetensors")); err != nil {
		t.Fatal(err)
	}
	if rows, err = report.ReadFiles(filepath.Join(run.Dir, RowsFile)); err != nil || len(rows.Skipped) > 0 {
		t.Fatal(err, rows.Skipped)
	}
	for i := range rows.Evals {
		rows.Evals[i].ImagesPerSecond = 0
		if rows.Evals[i].Step == 0 {
			rows.Evals[i].TrainLoss = 0 // NaN, which equals nothing: no step was made
		}
	}
	for i := range rows.Results {
		rows.Results[i].ImagesPerSecond, rows.Results[i].WallSeconds, rows.Results[i].Date = 0, 0, ""
	}
	return variables, rows
}

func TestAnInterruptedRunEndsWithTheBitsOfAnUnbrokenOne(t *testing.T) {
	if name := gomlxtest.Backend().Name(); name != "Go Backend" {
		t.Skipf("backend %s does not promise the same bits twice", name)
	}
	from, _ := pretrained(t, nil)
	for name, c := range map[string]struct{ position, from, settings string }{
		"wepe":    {position: "wepe"},
		"learned": {position: "learned"},
		"fine-tuned with SGD": {"learned", from, "optimizer.kind=sgd;optimizer.weight_decay=0;freeze=vectors;" +
			"epochs=0;steps=21;warmup_epochs=0;warmup_steps=7;eval_steps=7"},
		"fine-tuned with AdamW and layer decay": {"hybrid", from, "optimizer.layer_decay=0.7;zero_head=true;wepe_start=fitted;" +
			`optimizer.learning_rates={"gate":10,"position":3};augment.size=[10,8]`},
	} {
		recipe, err := everything().Set(c.settings)
		if err != nil {
			t.Fatal(err)
		}
		recipe.Model.Position = c.position
		run := Run{Backend: gomlxtest.Backend(), Recipe: recipe, Seed: 5, Train: pictures(47, 1), Test: pictures(9, 2),
			From: c.from}
		run.Dir = t.TempDir()
		variables, rows := finished(t, run)
		evaluations := 3
		if c.from != "" {
			evaluations++ // before the first step
		}
		if len(rows.Evals) != evaluations || len(rows.Results) != 1 {
			t.Fatalf("%d evaluations and %d runs are recorded", len(rows.Evals), len(rows.Results))
		}

		// 42 images in batches of 6 are 7 steps an epoch. Warm-up ends at step 7, late mixup begins at step 14.
		const steps = 21
		r := rand.New(rand.NewPCG(17, 0))
		stops := []int{3, 7, steps} // in warm-up, on its border, after the last step but before the row
		stops = append(stops, 8+r.IntN(6), 14+r.IntN(6))
		slices.Sort(stops)
		run.Dir = t.TempDir()
		for _, stop := range stops {
			ctx, cancel := context.WithCancel(t.Context())
			run.Progress = func(p Progress) {
				if p.Step == stop {
					cancel()
				}
				if p.Steps != steps {
					t.Errorf("%d steps, want %d", p.Steps, steps)
				}
			}
			_, _, err := run.Do(ctx)
			cancel()
			if stop < steps && !errors.Is(err, ErrInterrupted) || stop == steps && err != nil {
				t.Fatalf("stopped at %d: %v", stop, err)
			}
		}
		run.Progress = func(p Progress) { t.Errorf("a finished run makes step %d", p.Step) }
		gotVariables, gotRows := finished(t, run)
		if !bytes.Equal(gotVariables, variables) {
			t.Errorf("%s: the variables differ from those of the unbroken run", name)
		}
		if !reflect.DeepEqual(gotRows, rows) {
			t.Errorf("%s: the rows differ from those of the unbroken run", name)
		}
	}
}

func TestARunDirectoryOfAnotherRunIsRefusedInOneLine(t *testing.T) {
	run := Run{Backend: gomlxtest.Backend(), Recipe: tiny(), Train: pictures(30, 1), Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	run.Progress = func(Progress) { cancel() }
	if _, _, err := run.Do(ctx); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	run.Progress = nil
	for want, change := range map[string]func(*Run){
		"its optimizer.weight_decay is 0.05, this one's 0.06": func(r *Run) { r.Recipe.Optimizer.WeightDecay = 0.06 },
		`unset, this one's "release"`: func(r *Run) {
			r.Recipe.Params = map[string]any{"wepe_mode": "release"}
		},
		"its seed is 0": func(r *Run) { r.Seed = 1 },
		"images differ": func(r *Run) { r.Train = pictures(30, 2) },
	} {
		other := run
		change(&other)
		_, _, err := other.Do(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), run.Dir) {
			t.Errorf("want one line with %q and the directory, got %v", want, err)
		}
	}
	if _, _, err := run.Do(t.Context()); err != nil {
		t.Errorf("the same run does not go on: %v", err)
	}
}
