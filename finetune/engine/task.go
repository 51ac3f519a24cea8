// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/report"
)

// Task is the model and data that a Trainer trains: classification in package finetune, detection in package detect.
type Task interface {
	// Losses builds the losses of one micro-batch from the inputs that Call passes: scalars, whose sum is minimized.
	Losses(scope *model.Scope, inputs []*Node) []*Node
	// Start initializes a new training. Variables that it does not create are drawn when a program first uses them.
	Start() error
	// Identity says which run the task trains.
	Identity() RunIdentity
	// Load restores a checkpoint and returns which run it is of, and its progress.
	Load(checkpoint *checkpoints.Checkpoint) (RunIdentity, TrainState, error)
	// State returns the contents of a checkpoint besides the variables: a struct for JSON that embeds course.
	State(course TrainState) any
	// Begin prepares the data for the given step and all later ones.
	Begin(step int) error
	// Fetch reads the images of a step, before any of its programs runs: after an error the training stops between two
	// steps. It is called at least once for each step.
	Fetch(step int) error
	// Call runs a program on one micro-batch of a step. The last input of the program is scalars.
	Call(program *model.Exec, step, part int, scalars []float32) ([]*tensors.Tensor, error)
	// Evaluate evaluates the validation split into row. The checkpoint of the highest score is kept as the best; measured
	// is false without a validation split.
	Evaluate(row *report.Eval) (score float64, measured bool, err error)
	// Finish evaluates and records the result, after the last step.
	Finish(ctx context.Context) error
}

// Training is the configuration of a Trainer.
type Training struct {
	Task      Task
	Backend   compute.Backend
	Store     *model.Store
	Network   string     // scope of the network's variables in Store
	Job       report.Job // of the rows
	LossNames []string   // of Task.Losses, for errors

	Optimizer      Optimizer                     // complete
	Factor         func(variable string) float64 // of the learning rate of a variable, by its path
	Devices        parallel.Devices              // that share each micro-batch
	Freeze         string                        // groups that are not trained, valid for Frozen
	BatchSize      int                           // images of an optimizer step
	GradAccumSteps int                           // micro-batches of an optimizer step
	PerPass        int                           // optimizer steps of an epoch
	Steps          int                           // optimizer steps in all
	Interval       int                           // optimizer steps between evaluations
	Group          Group                         // processes that share the run, nil for this one alone
	Dir            string                        // directory of the run's files, empty for none
	// Description is written as DescriptionFile once the training is known to be that of the directory; nil for none.
	Description any
	SaveEvery   time.Duration  // between checkpoints, in addition to one after each evaluation
	SaveSteps   int            // the same in optimizer steps, 0 for no limit
	Patience    int            // evaluations without improvement that end the run, 0 for never
	Progress    func(Progress) // called after every step, nil for none
	Logger      *slog.Logger   // may be nil
}

// Trainer makes the optimizer steps of a Task, evaluates between them, and saves and resumes them.
type Trainer struct {
	Training
	collect, apply  *model.Exec // in a group apply takes the sums of all processes
	frozen          []string
	step, startStep int
	course          TrainState
	sent            []float32         // gradients and losses of a group, reused in the next step
	pending         []*tensors.Tensor // losses not read back yet, so that the host need not wait for the device
	lastLoss        float64
	started         time.Time
	waited          time.Duration // for the images of the step
	evalTime        time.Duration // of an evaluation, without compilation after the first
	saved           time.Time
}

// NewTrainer returns the trainer of a task before its first step.
func NewTrainer(t Training) *Trainer {
	if t.Group == nil {
		t.Group = parallel.Alone{}
	}
	if t.Logger == nil {
		t.Logger = slog.New(slog.DiscardHandler)
	}
	t.SaveEvery = cmp.Or(t.SaveEvery, 5*time.Minute)
	frozen, _ := Frozen(t.Freeze)
	return &Trainer{Training: t, frozen: frozen, course: TrainState{Best: -1}, started: time.Now(), saved: time.Now()}
}
