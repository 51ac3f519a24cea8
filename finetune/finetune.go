// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package finetune trains, fine-tunes, evaluates and applies Vision Transformers.
//
//	recipe, err := finetune.RecipeByName("shapes")
//	train, test, err := data.Shapes("where", 4000, 1000, 32, 0)
//	run := finetune.Run{Backend: b, Recipe: recipe, Train: train, Test: test, Dir: "runs/first"}
//	m, row, err := run.Do(ctx)              // the same call resumes an interrupted run
//	classes, err := m.Predict([]string{"cat.jpg"}, 5) // label and probability
//
// A Recipe is a struct with everything that defines a training except data, seed and machine.
//
// # Use a model
//
//	m, err := finetune.Open(b, "runs/first") // or a model of Hugging Face, timm or Google, or hf://owner/name
//	features, err := m.Embed("cat.jpg", "dog.png")
//	report, err := m.Export("out", checkpoints.ExportOptions{Format: "hf"})
//
// # Fine-tuning
//
// With Run.From, a run starts from a pretrained model, which determines the network and the normalization of pixels.
// The recipe's Model.Position decides what happens to the position table: resampled ("learned"), replaced
// ("wepe-sphere"), or blended with WePE by a learned gate ("hybrid").
//
//	recipe := finetune.FineTuning(config, images) // learning rate and epochs for a model of that size
//	run := finetune.Run{Backend: b, Recipe: recipe, Train: train, Test: test, From: "vit-base-patch16-224"}
//
// # Resume
//
// The order of the data (data.Order) and every augmentation (Augment.Plan) are pure functions of (seed, epoch, index),
// so no position in the data is stored. A checkpoint has every variable of the store (weights, the optimizer's moments,
// moving averages, the random generator, the step), its hyperparameters, and as JSON the run (recipe, seed, origin of
// the weights, fingerprint and classes of the data, preprocessing) with engine.TrainState (best score, seconds, losses
// since the last evaluation): see checkpoints.Saver, save in engine/record.go and state in open.go. On the pure-Go
// backend an interrupted run ends with the same bits as an uninterrupted one; other backends do not guarantee equal
// bits.
//
// With a Group, several processes share one training run: each computes some of the micro-batches of every batch
// (Recipe.GradAccumSteps). See docs/scale.md.
//
// # Run directory
//
//	rows.jsonl    a row per evaluation, and one at the end (package report)
//	curves.png    loss and accuracy
//	report.html   the run on one page, written by Page
//	last/         the newest checkpoint
//	best/         the checkpoint with the best validation accuracy
package finetune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/report"
)

// ErrHeadless means that a model has no classifier, as a backbone's files have none.
var ErrHeadless = errors.New("the model has no head, so it has no classes: train one, or use its features")

// Run is one training run of one recipe on one dataset with one seed.
type Run struct {
	Backend compute.Backend
	Devices int // of the backend that share each batch; 0 for all that divide it equally, on a CPU one
	Recipe  Recipe
	Seed    int64

	Train      data.Dataset
	Validation data.Dataset // selects the best weights; nil splits ValFraction off Train
	Test       data.Dataset // evaluated once, after the last step; nil for none
	// Weights selects the weights that the run tests and returns: checkpoints.BestDir (default), the best validation
	// accuracy, or LastDir. Without a validation split or Dir they are the last.
	Weights  string
	Fraction float64 // Train as a fraction of its dataset, for the record; 0 means 1
	Label    string  // of the encoding in rows, to distinguish variants; default the position's name

	From   string            // a pretrained model: a run directory or a file; empty for from scratch
	Import checkpoints.Hints // Grid, AssumeSquare and Architecture, if the files of From lack them

	Group     engine.Group  // the processes that share the run, nil for a single process
	Dir       string        // directory of the run's files; empty for none
	SaveEvery time.Duration // between checkpoints, in addition to evaluations; default 5 minutes
	SaveSteps int           // the same in optimizer steps, 0 for no limit
	// continue the directory's checkpoint, whatever From is now, and up to more epochs or steps
	Extend   bool
	Progress func(engine.Progress) // called after every step; may be nil
	Logger   *slog.Logger          // events of files, weights and data; nil for none
	// Description is written as engine.DescriptionFile, JSON, once the directory's checkpoint is known to be of this run:
	// until then the run may be refused, and must not change the file. nil for none.
	Description any

	source *initialModel // the model of From
}

// Do trains, or resumes from the last checkpoint in the run's directory, and returns the model and its row, both for
// the weights that Run.Weights selects. When it returns engine.ErrInterrupted, the state is saved.
func (run Run) Do(ctx context.Context) (m *Model, row report.Result, err error) {
	if run, err = run.prepared(); err != nil {
		return nil, row, err
	}
	c, err := newClassification(run)
	if err != nil {
		return nil, row, err
	}
	defer c.close()
	if err := c.Trainer.Train(ctx); err != nil {
		c.model.Finalize()
		return nil, row, err
	}
	return c.model, c.row, nil
}

// prepared sets defaults and refuses invalid runs, before anything is written to disk.
func (run Run) prepared() (Run, error) {
	run.Fraction = cmp.Or(run.Fraction, 1)
	if run.Group == nil {
		run.Group = parallel.Alone{}
	}
	if run.Logger == nil || run.Group.Rank() > 0 {
		run.Logger = slog.New(slog.DiscardHandler)
	}
	if run.Group.Rank() > 0 {
		run.Progress = nil
	}
	for _, set := range []data.Dataset{run.Train, run.Validation, run.Test} {
		if set == nil {
			continue
		}
		if err := data.Check(context.Background(), set, false); err != nil {
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
		return run, fmt.Errorf("finetune: recipe %s has no model: name a pretrained one", recipe.Name)
	} else if recipe.LoRA > 0 {
		return run, fmt.Errorf("finetune: lora is %d, but the model is not pretrained: name a pretrained one", recipe.LoRA)
	}
	if run.Extend && recipe.Steps > 0 && recipe.EvalEverySteps == 0 { // the default would be of the new steps
		recipe.EvalEverySteps = run.begun().Recipe.EvalEverySteps
	}
	if recipe, err = recipe.share(run.Group); err != nil {
		return run, err
	}
	run.Recipe, err = recipe.fit(run.Train.Describe())
	run.Label = cmp.Or(run.Label, run.Recipe.Model.Position)
	return run, err
}

// findSource opens the source of the run, nil for a run from scratch. A resumed run has its source in the checkpoint:
// the file may be missing, but not another one unless the run is known to be the checkpoint's.
func (run Run) findSource() (*initialModel, error) {
	if run.Extend {
		if begun := run.begun(); begun.Recipe.Model.Width > 0 {
			return begun.From, nil
		}
	}
	if run.From == "" {
		return nil, nil
	}
	begun := run.begun().From
	classes := run.Train.Describe().Classes
	imported, err := checkpoints.Import(run.From, checkpoints.ImportOptions{Classes: len(classes), Hints: run.Import})
	switch {
	case begun != nil && (err != nil || imported.SHA256 == begun.SHA256):
		return begun, nil
	case err != nil:
		return nil, err
	}
	source := newSource(run.From, imported, classes)
	source.assumed = unnamed(source.Classes) && imported.Variables[headPath+"weights"] != nil
	return source, nil
}

// begun returns the state in the checkpoint that the run continues from, zero if there is none.
func (run Run) begun() state {
	if run.Dir == "" {
		return state{}
	}
	if last, _, err := checkpoints.Find(run.Dir, checkpoints.Resume); err == nil && last != nil {
		if begun, err := stateOf(last); err == nil { // resume returns the errors
			return begun
		}
	}
	return state{}
}

// share sets what a group requires of a recipe, and refuses a recipe that it cannot share.
func (r Recipe) share(g engine.Group) (Recipe, error) {
	r.GradAccumSteps = cmp.Or(r.GradAccumSteps, g.Size())
	switch {
	case g.Size() == 1:
		return r, nil
	case r.GradAccumSteps%g.Size() != 0:
		return r, fmt.Errorf("training: %d processes cannot share %d micro-batches: set grad_accum_steps to a multiple of %d",
			g.Size(), r.GradAccumSteps, g.Size())
	case r.Architecture == DHVT:
		return r, fmt.Errorf("training: recipe %s normalizes by batches: their running statistics would differ between the "+
			"%d processes of a group: use one process", r.Name, g.Size())
	}
	return r, nil
}
