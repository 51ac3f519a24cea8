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
// The order of the data and every augmentation are pure functions of (seed, epoch, index); checkpoints contain the
// optimizer's moments and the random generator. On the pure-Go backend an interrupted run ends with the same bits as an
// uninterrupted one; other backends do not guarantee equal bits.
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
	"errors"
	"log/slog"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/engine"
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
