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
// a gate, as the recipe's Model.Position says.
//
//	recipe, err := finetune.Named("demo-cifar100")
//	recipe.Model.Position = "hybrid"
//	run := finetune.Run{Backend: backend, Recipe: recipe, Train: train, Test: test, From: "vit-base-patch16-224"}
//
// # Resume
//
// The order of the data and every augmentation are pure functions of (seed, epoch, index). Dropout's generator is one
// of (seed, step, part) where a batch is computed in parts; else it is a variable, as the optimizer's moments are,
// and a checkpoint holds all of them. A run that was stopped goes on with the same command and ends with the same
// bits as one that never stopped (on the go backend; other backends do not promise bit-equal arithmetic).
//
// # Several processes
//
// With a Group, each process of an MPI job computes some of the parts of every batch. What is trained depends on the
// parts, Recipe.Accumulate, not on who computes them: see docs/scale.md.
//
// # What a run leaves in its directory
//
//	rows.jsonl    one row per evaluation, one when the run ends (package report)
//	curves.png    loss and accuracy
//	report.html   all of the run on one page, where Page was called
//	last/         the newest checkpoint, all that a resume needs
//	best/         the checkpoint of the best validation accuracy
//
// # How the package is built
//
// Each layer knows those above it in this list, never the other way round:
//
//	recipe    recipe.go, changed by settings.go, named in recipes.go; its optimizer, groups, source
//	machines  group.go and devices.go share the work among processes and devices
//	model     model.go, asked in evaluate.go (answers.go says how right it is), predict.go, encoding.go, export.go;
//	          opened by open.go; state.go is what a checkpoint stores beside it
//	training  task.go is what a training is about, steps.go the graph of a step, exchange.go what processes send each
//	          other in it; trainer.go makes a step, record.go and resume.go keep it, train.go makes all of them
//	run       classification.go is the task of images with a class, order.go says which in which step; do.go runs it,
//	          and page.go is about it
package finetune

import (
	"errors"
	"log/slog"
	"time"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
)

// Files in a run's directory: its record, and the evaluations of that as CSV.
const (
	RowsFile = "rows.jsonl"
	LogFile  = "log.csv"
	// eventsFile has the evaluations in the form of TensorBoard.
	eventsFile = "events.out.tfevents.wepe"
)

// ErrInterrupted says that the context ended; what was done is saved, and the same run goes on from there.
var ErrInterrupted = errors.New("interrupted")

// ErrDiverged says that the loss is not finite any more: the settings are not for this data.
var ErrDiverged = errors.New("training diverged")

// Run is one training of one recipe on one dataset with one seed.
type Run struct {
	Backend compute.Backend
	Devices int // of the backend that share each batch; 0 for all that can share it equally, of a processor one
	Recipe  Recipe
	Seed    int64

	Train      data.Source
	Validation data.Source // chooses the best weights; nil holds the recipe's ValidationPart of Train out
	Test       data.Source // measured once, after the last step; nil for none
	// Weights are those that the run ends with, measures and returns: checkpoints.BestDir, those of the best validation
	// accuracy, the default, or LastDir. Without validation images or Dir they are the last.
	Weights  string
	Fraction float64 // of the dataset that Train is, for the record; 0 means 1
	Label    string  // of the encoding in rows, to tell variants of one apart; default the name of the position

	From   string                    // a pretrained model: a run directory or a file; empty for from scratch
	Import checkpoints.ImportOptions // what the files of From leave open: Grid, AssumeSquare, Architecture

	Group     Group          // the processes that share the run, nil for this one alone
	Dir       string         // where the run leaves its files; empty for nowhere
	SaveEvery time.Duration  // between checkpoints beside those at evaluations, default 5 minutes
	SaveSteps int            // the same in optimizer steps, 0 for no limit
	Extend    bool           // a checkpoint of fewer epochs or steps goes on with those of Recipe
	Progress  func(Progress) // called after every step, nil for silence
	Logger    *slog.Logger   // what happens to files, weights and data; nil for silence

	source *initialModel // what From is
}

// Progress is how far a run has come.
type Progress struct {
	Step, Steps     int
	Loss            float64 // of the last step that was read back
	ImagesPerSecond float64 // of the optimizer steps so far, see report.Result.ImagesPerSecond
	Left            time.Duration
	Eval            *report.Eval // set when this step ended with an evaluation
}
