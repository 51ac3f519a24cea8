// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/report"
)

// Files in a run's directory: the record, its evaluations as CSV, and for TensorBoard.
const (
	DescriptionFile = "run.json" // what the caller says of the run
	RowsFile        = "rows.jsonl"
	LogFile         = "log.csv"
	eventsFile      = "events.out.tfevents.wepe"
)

// ErrInterrupted means that the context was cancelled; the state is saved, and the same run resumes from it.
var ErrInterrupted = errors.New("interrupted")

// ErrDiverged means that the loss is no longer finite.
var ErrDiverged = errors.New("training diverged")

// TrainState is the progress of a training run, as a checkpoint stores it.
type TrainState struct {
	Best      float64 `json:"best"`                // score of the best checkpoint so far
	BestLoss  float64 `json:"best_loss,omitempty"` // its validation loss, the lower of two equal scores
	BestStep  int     `json:"best_step,omitempty"`
	LossSum   float64 `json:"loss_sum"`
	LossSteps int     `json:"loss_steps"` // micro-batches since the last evaluation
	Backend   string  `json:"backend,omitempty"`
	Seconds   float64 `json:"seconds"`           // spent training and evaluating so far
	Command   string  `json:"command,omitempty"` // as in the row of the result

	// Timed optimizer steps and their time: all except the first after a start or resume, which compiles.
	TimedSteps   int     `json:"timed_steps"`
	TimedSeconds float64 `json:"timed_seconds"`
}

// imagesPerSecond is the speed of the timed steps, 0 before the first of them.
func (c TrainState) imagesPerSecond(batchSize int) float64 {
	if c.TimedSteps == 0 {
		return 0
	}
	return float64(c.TimedSteps*batchSize) / c.TimedSeconds
}

// Progress is the progress of a run.
type Progress struct {
	Step, Steps     int
	Loss            float64       // of the last step that was read back, 0 before one was
	ImagesPerSecond float64       // of the optimizer steps so far, see report.Result.ImagesPerSecond
	Left            time.Duration // 0 if unknown, as after the first step, which compiles
	Eval            *report.Eval  // set when this step ended with an evaluation
}

// String is a line: step, loss, what an evaluation found, speed and remaining time.
func (p Progress) String() string {
	name, loss, found := "loss", p.Loss, ""
	if e := p.Eval; e != nil {
		name, loss = "mean loss", float64(e.TrainLoss) // since the evaluation before
		if e.Images > 0 {
			found = fmt.Sprintf("validation top-1 %.1f %%  ", 100*float64(e.Top1))
		}
		if e.Boxes != nil {
			found = fmt.Sprintf("validation box AP %s  ", report.Percent(1, "AP", e.Boxes))
		}
		if e.Masks != nil {
			found += fmt.Sprintf("mask AP %s  ", report.Percent(1, "AP", e.Masks))
		}
	}
	if p.Eval != nil || loss != 0 {
		found = fmt.Sprintf("%s %.3f  ", name, loss) + found
	}
	digits := 0
	if p.ImagesPerSecond < 10 {
		digits = 2
	}
	line := fmt.Sprintf("step %d/%d  %s%.*f images/s", p.Step, p.Steps, found, digits, p.ImagesPerSecond)
	if p.Left > 0 || p.Step == p.Steps {
		line += fmt.Sprintf("  %s left", p.Left.Round(time.Second))
	}
	return line
}

// NewStore returns a store with hyperparameters and seed; its variables are not initialized yet.
func NewStore(params map[string]any, seed int64) (*model.Store, error) {
	store := model.NewStore()
	store.SetParams(params)
	store.SetParam("/"+model.ParamInitialSeed, seed)
	return store, store.SetRNGStateFromSeed(seed)
}
