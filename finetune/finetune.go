// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package finetune trains vision transformers: one engine from data to a trained, evaluated and recorded model.
//
//	recipe, err := finetune.Named("shapes")
//	train, test, err := data.Shapes(data.TaskWhere, 4000, 1000, 32, 0)
//	run := finetune.Run{Backend: backend, Recipe: recipe, Train: train, Test: test, Dir: "runs/first"}
//	model, row, err := run.Do(ctx)
//
// A Recipe is a literal that says everything about a training but data, seed and machine. The pixels go to the device
// once; each step sends a few hundred numbers (data.Plan, the learning rate) to one compiled program.
//
// # Fine-tuning
//
// With From, a run starts from a pretrained model: one of Hugging Face, timm or Google, or a run of ours. It gives the
// network and the normalisation of pixels; positions are resampled to the run's grid, replaced, or blended into WePE by
// a gate, as the recipe's Model.Position says; see Source.
//
//	recipe, err := finetune.Named("demo-cifar100")
//	recipe.Model.Position = "hybrid"
//	run := finetune.Run{Backend: backend, Recipe: recipe, Train: train, Test: test, From: "vit-base-patch16-224"}
//
// # Resume
//
// The order of the data and every augmentation are pure functions of (seed, epoch, index), dropout's generator and the
// optimizer's moments are variables, and a checkpoint holds all of them. A run that was stopped goes on with the same
// command and ends with the same bits as one that never stopped (on the go backend; other backends do not promise
// bit-equal arithmetic).
//
// # What a run leaves in its directory
//
//	rows.jsonl    one row per evaluation, one when the run ends (package report)
//	curves.png    loss and accuracy
//	report.html   all of the run on one page, where Page was called
//	last/         the newest checkpoint, all that a resume needs
//	best/         the checkpoint of the best validation accuracy
package finetune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

// RowsFile is the record in a run's directory.
const RowsFile = "rows.jsonl"

// ErrInterrupted says that the context ended; what was done is saved, and the same run goes on from there.
var ErrInterrupted = errors.New("interrupted")

// Run is one training of one recipe on one data set with one seed.
type Run struct {
	Backend compute.Backend
	Recipe  Recipe
	Seed    int64

	Train    *data.Set // the recipe's ValidationPart of it is held out
	Test     *data.Set // measured once, after the last step; nil for none
	Fraction float64   // of the data set that Train is, for the record; 0 means 1
	Label    string    // of the encoding in rows, to tell variants of one apart; default the name of the position

	From   string                    // a pretrained model, see Source: a run directory or a file; empty for from scratch
	Import checkpoints.ImportOptions // what the files of From leave open: Grid, AssumeSquare, Heads

	Dir       string         // where the run leaves its files; empty for nowhere
	SaveEvery time.Duration  // between checkpoints beside those at evaluations, default 5 minutes
	Progress  func(Progress) // called after every step, nil for silence
	Log       func(string)   // one line for people, nil for silence

	source *Source // what From is
}

// Progress is how far a run has come.
type Progress struct {
	Step, Steps     int
	Loss            float64 // of the last step that was read back
	ImagesPerSecond float64 // of the optimizer steps so far, see report.Result.ImagesPerSecond
	Left            time.Duration
	Eval            *report.Eval // set when this step ended with an evaluation
}

// Do trains, or goes on training from the run directory's last checkpoint, and returns the model with its final weights
// and the run's row. On ErrInterrupted the state is saved.
func (run Run) Do(ctx context.Context) (m *Model, row report.Result, err error) {
	if run, err = run.prepared(); err != nil {
		return nil, row, err
	}
	if ctx.Err() != nil {
		return nil, row, fmt.Errorf("%w before it began", ErrInterrupted)
	}
	if run.Dir != "" {
		unlock, lockErr := checkpoints.Lock(run.Dir)
		if lockErr != nil {
			return nil, row, lockErr
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	t, err := run.begin()
	if err != nil {
		return nil, row, err
	}
	defer func() {
		if t.close(); err != nil {
			t.model.Finalize()
		}
	}()
	if row, done := t.recorded(); done {
		return t.model, row, t.model.swapAverage() // as finish does; nothing happens without averages
	}
	if err := t.before(); err != nil {
		return nil, row, err
	}
	for t.step < t.steps {
		if ctx.Err() != nil {
			if err := t.saveProgress(); err != nil {
				return nil, row, fmt.Errorf("interrupted at step %d of %d and not saved: %w", t.step, t.steps, err)
			}
			return nil, row, fmt.Errorf("%w at step %d of %d", ErrInterrupted, t.step, t.steps)
		}
		if err := t.advance(); err != nil {
			return nil, row, err
		}
	}
	row, err = t.finish()
	return t.model, row, err
}

// prepared fills in defaults and refuses what cannot be trained, before anything is on disk.
func (run Run) prepared() (Run, error) {
	setDefault(&run.SaveEvery, 5*time.Minute)
	setDefault(&run.Fraction, 1)
	if run.Log == nil {
		run.Log = func(string) {}
	}
	for _, set := range []*data.Set{run.Train, run.Test} {
		if set == nil {
			continue
		}
		if err := set.Validate(); err != nil {
			return run, err
		}
	}
	if run.From != "" {
		if err := run.Recipe.plainViT("starts from a pretrained model"); err != nil {
			return run, err
		}
	}
	var err error
	if run.source, err = run.findSource(); err != nil {
		return run, err
	}
	recipe := run.Recipe
	if run.source != nil {
		if recipe, err = recipe.adopt(run.source); err != nil {
			return run, err
		}
	} else if recipe.Model.Width == 0 {
		return run, fmt.Errorf("finetune: recipe %s has no model of its own: name a pretrained one", recipe.Name)
	}
	run.Recipe, err = recipe.fit(run.Train)
	setDefault(&run.Label, run.Recipe.Model.Position)
	return run, err
}
