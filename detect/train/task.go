// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/atomicfile"
	"github.com/wepe-go/wepe/report"
)

// detection is the engine.Task of a Run.
type detection struct {
	Run
	trainer *engine.Trainer
	model   *Model
	state   state
	confirm func() error // whether a checkpoint had all variables of the detector, after the first step
	order   []int        // of the scenes in the epoch of the current step
	batch   batch        // of the current step
	rows    []report.Result
}

// newDetection returns the task of a prepared run.
func newDetection(run Run) (*detection, error) {
	r := run.Recipe
	d := &detection{Run: run, confirm: func() error { return nil }, batch: batch{step: -1},
		state: state{Recipe: r, Categories: run.Train.Categories(), Seed: run.Seed, Dataset: run.Dataset,
			Scenes: run.Train.Len()}}
	if folder, ok := run.Train.(*scenes.Folder); ok {
		d.state.Objects = folder.Dataset.SHA256
	}
	if run.source != nil {
		d.state.From = run.source.SHA256
	}
	var err error
	if d.model, err = newModel(run.Backend, r, d.state.Categories, run.Seed); err != nil {
		return nil, err
	}
	r.Optimizer.Schedule = r.schedule()
	d.trainer = engine.NewTrainer(engine.Training{
		Task: d, Backend: run.Backend, Store: d.model.store, Network: detectorScope, LossNames: r.Detector.LossNames(),
		Job:       report.Job{Recipe: r.Name, Dataset: run.Dataset, Fraction: 1, Encoding: run.Label, Seed: run.Seed},
		Optimizer: r.Optimizer, Factor: r.factor, Trains: ofDetector,
		BatchSize: r.BatchSize, Accumulate: 1, PerPass: run.Train.Len() / r.BatchSize, Steps: r.Steps, Interval: r.EvalSteps,
		Dir: run.Dir, SaveEvery: run.SaveEvery, Progress: run.Progress, Logger: run.Logger,
	})
	return d, nil
}

// Losses is the second half of a step: the losses on the host's samples, in the order of Config.LossNames. Inputs are
// detect.Inputs in the order of List.
func (d *detection) Losses(scope *model.Scope, inputs []*Node) []*Node {
	return d.Recipe.Detector.Losses(scope.Store().Scope(detectorScope), detect.InputsOf(inputs))
}

// factor returns the factor of a variable's learning rate.
func (r Recipe) factor(variable string) float64 {
	if r.Optimizer.LayerDecay == 0 {
		return 1
	}
	return r.Detector.Backbone.LearningRateFactor(strings.TrimPrefix(variable, detectorScope+"/"), r.Optimizer.LayerDecay)
}

// Start loads the pretrained backbone, if there is one.
func (d *detection) Start() error {
	if d.source == nil {
		return nil
	}
	if d.Logger != nil {
		d.Logger.Info(fmt.Sprintf("starting from %s (SHA-256 %.12s…): %s", d.From, d.source.SHA256, d.source.Report[0]))
		if own, theirs := d.Recipe.Detector.Backbone.Position, d.source.Config.Position; own != theirs {
			d.Logger.Info(fmt.Sprintf("positions: %s in place of the checkpoint's %s", own, theirs))
		}
	}
	return d.model.LoadBackbone(d.source.Config, d.source.Params, d.source.Variables)
}

// Identity implements engine.Task.
func (d *detection) Identity() engine.RunIdentity { return d.state.identity() }

// Load implements engine.Task.
func (d *detection) Load(checkpoint *checkpoints.Checkpoint) (engine.RunIdentity, engine.Course, error) {
	s, err := stateOf(checkpoint)
	if err != nil {
		return engine.RunIdentity{}, engine.Course{}, err
	}
	d.state = s
	d.confirm = func() error { return checkpoint.Check(d.model.store, nil) }
	return s.identity(), s.Course, checkpoint.Load(d.model.store, nil)
}

// State implements engine.Task.
func (d *detection) State(course engine.Course) any {
	s := d.state
	s.Course = course
	return s
}

// Begin implements engine.Task: Fetch reads the scenes.
func (d *detection) Begin(int) error { return nil }

// Call implements engine.Task. The current detector proposes boxes, the host samples, and the program computes the
// losses.
func (d *detection) Call(program *model.Exec, step, _ int, scalars []float32) ([]*tensors.Tensor, error) {
	inputs, err := d.inputs(step)
	if err != nil {
		return nil, err
	}
	var all []any
	for _, x := range inputs.List() {
		all = append(all, x)
	}
	outputs, err := program.Call(append(all, scalars)...)
	if err != nil {
		return nil, err
	}
	confirm := d.confirm
	d.confirm = func() error { return nil }
	return outputs, confirm()
}

// inputs returns the inputs of a step, after Fetch: a function of the weights, the seed and the step.
func (d *detection) inputs(step int) (detect.Inputs[*tensors.Tensor], error) {
	return d.model.Inputs(d.batch.pixels, d.batch.annotations, d.Seed<<32+int64(step))
}

// Evaluate implements engine.Task: the score is the average precision of boxes.
func (d *detection) Evaluate(row *report.Eval) (score float64, measured bool, err error) {
	if d.Validation == nil {
		return 0, false, nil
	}
	row.Found, _, err = d.model.Evaluate(*d.Validation)
	return float64(row.Boxes["AP"]), true, err
}

// Finish evaluates the tests that are not evaluated yet.
func (d *detection) Finish(ctx context.Context) error {
	var known report.Rows
	if d.Dir != "" {
		var err error
		if known, err = report.ReadFiles(filepath.Join(d.Dir, engine.RowsFile)); err != nil {
			return err
		}
	}
	for _, test := range d.Tests {
		row, err := d.result(test)
		if err != nil {
			return err
		}
		if before := measured(known.Results, row); before != nil {
			d.rows = append(d.rows, *before)
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w before it was tested at %s", engine.ErrInterrupted, row.ImageSize)
		}
		if row, err = d.test(test); err != nil {
			return err
		}
		d.rows = append(d.rows, row)
	}
	return nil
}

// result is the row of a test before its evaluation. At another size than in training, the recipe's name contains the
// size.
func (d *detection) result(test Test) (report.Result, error) {
	row, err := d.trainer.Result(struct {
		Recipe
		From       string `json:"from,omitempty"`
		TestScenes int    `json:"test_scenes"`
		Objects    string `json:"test_objects,omitempty"` // SHA-256 of the file that lists the objects, or their name
	}{d.Recipe, d.state.From, test.Scenes.Len(), cmp.Or(test.Annotations.SHA256, test.Annotations.Name)})
	row.ImageSize = size(test.canvas(d.Recipe.Detector))
	row.Weights = report.Weights{Name: checkpoints.LastDir, Step: row.Steps}
	if b := d.Recipe.Detector.Backbone; row.ImageSize != size(b.ImageRows, b.ImageCols) {
		row.Recipe += " at " + row.ImageSize
	}
	return row, err
}

// measured returns the row of an earlier evaluation of the same test.
func measured(known []report.Result, row report.Result) *report.Result {
	for i, r := range known {
		if r.Job == row.Job && r.Steps == row.Steps && string(r.Settings) == string(row.Settings) && r.Boxes != nil {
			return &known[i]
		}
	}
	return nil
}

// test evaluates a test and records it, with the detections in COCO's form.
func (d *detection) test(test Test) (row report.Result, err error) {
	numbers, found, err := d.model.Evaluate(test)
	if err != nil {
		return row, err
	}
	if row, err = d.result(test); err != nil { // after a program has used all parameters
		return row, err
	}
	row.Found = numbers
	if d.Dir != "" {
		path := filepath.Join(d.Dir, "results-"+row.ImageSize+".json")
		write := func(w io.Writer) error { return coco.WriteResults(w, found) }
		if err := atomicfile.Write(path, write); err != nil {
			return row, err
		}
	}
	row.Stamp(time.Now())
	return row, d.trainer.Record(row)
}
