// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/xslices"
	"golang.org/x/sync/errgroup"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/report"
)

// Run is one training run of one recipe on one dataset with one seed. Every batch is a function of the seed and the
// step.
type Run struct {
	Backend compute.Backend
	Recipe  Recipe
	Seed    int64

	Dataset string // its name, for the record
	Train   *scenes.Set
	// Validation is evaluated every Recipe.EvalEverySteps, and selects the best checkpoint; nil for none.
	Validation *Test
	Tests      []Test // each evaluated once, after the last step

	From     string                // a pretrained ViT for the backbone, see checkpoints.Import; empty for from scratch
	Import   checkpoints.Hints     // what the files of From lack
	Dir      string                // directory of the run's files; empty for none
	Progress func(engine.Progress) // called after every step; may be nil
	Logger   *slog.Logger          // may be nil

	source *checkpoints.Imported // the model of From
}

// Do trains, or resumes from the run directory's last checkpoint, and returns the detector and a row for each of the
// tests. When it returns engine.ErrInterrupted, the state is saved.
func (run Run) Do(ctx context.Context) (*Detector, []report.Result, error) {
	run, err := run.prepared()
	if err != nil {
		return nil, nil, err
	}
	t, err := newTask(run)
	if err != nil {
		return nil, nil, err
	}
	if err := t.trainer.Train(ctx); err != nil {
		t.detector.Finalize()
		return nil, nil, err
	}
	return t.detector, t.rows, nil
}

// prepared sets defaults and refuses invalid runs, before anything is written to disk.
func (run Run) prepared() (_ Run, err error) {
	r, c := &run.Recipe, &run.Recipe.Detector
	if run.Train == nil {
		return run, errors.New("detect: Train is nil: set the scenes to train on")
	}
	if run.Train.Len == 0 {
		return run, fmt.Errorf("detect: %s has no image with an object to train on", run.Train.Name)
	}
	if run.Validation == nil && r.ValFraction > 0 && r.ValFraction < 1 { // others: validate
		training, validation := run.Train.Split(r.ValFraction)
		if validation != nil && min(training.Len, validation.Len) == 0 {
			return run, fmt.Errorf("detect: val_fraction %g of %d images leaves %d to train on and %d for validation: change it",
				r.ValFraction, run.Train.Len, training.Len, validation.Len)
		}
		if run.Train = training; validation != nil {
			run.Validation = &Test{Scenes: validation}
		}
	}
	if run.Train.Len < max(1, r.BatchSize) {
		return run, fmt.Errorf("detect: fewer scenes to train on than one batch of %d: lower batch_size", r.BatchSize)
	}
	c.Backbone.Classes = len(run.Train.Categories)
	if run.From != "" {
		o := checkpoints.ImportOptions{HeadOptional: true, Hints: run.Import}
		if run.source, err = checkpoints.Import(run.From, o); err != nil {
			return run, err
		}
		if *r, err = r.adopt(run.source, run.From); err != nil {
			return run, err
		}
	}
	if *r, err = r.Resolve(); err != nil {
		return run, err
	}
	if err := r.begins(); err != nil {
		return run, err
	}
	run.Train = c.needed(run.Train)
	tests := run.Tests
	if run.Validation != nil {
		tests = append([]Test{*run.Validation}, tests...)
	}
	for _, test := range tests { // what the end would refuse
		if _, err := c.check(run.Train.Categories, test); err != nil {
			return run, err
		}
	}
	return run, nil
}

// state is what a checkpoint stores besides the variables.
type state struct {
	Recipe     Recipe          `json:"recipe"`
	Categories []coco.Category `json:"categories"`
	Seed       int64           `json:"seed"`
	From       string          `json:"from,omitempty"` // SHA-256 of the pretrained backbone
	Dataset    string          `json:"dataset"`
	Scenes     int             `json:"scenes"`            // number of training scenes
	Objects    string          `json:"objects,omitempty"` // objectsOf them
	Validation string          `json:"validation,omitempty"`
	engine.TrainState
}

// stateOf reads what this package wrote into a checkpoint.
func stateOf(c *checkpoints.Checkpoint) (s state, err error) {
	var stored struct {
		Recipe struct{ Detector json.RawMessage }
	}
	if err := json.Unmarshal(c.Meta, &stored); err == nil && stored.Recipe.Detector == nil {
		return s, fmt.Errorf("detect: %s is not a checkpoint of a detector", c.Path)
	}
	if err := json.Unmarshal(setting.Current(c.Meta), &s); err != nil {
		return s, fmt.Errorf("detect: %s: %w", c.Path, err)
	}
	if s.Recipe, err = s.Recipe.Resolve(); err != nil {
		return s, fmt.Errorf("detect: %s: %w", c.Path, err)
	}
	encoding, own := s.Recipe.Detector.Backbone.Encoding(), s.Recipe.Detector.Backbone.ownParams()
	for path, value := range c.Params { // those of MODEL, which earlier versions did not put into the recipe
		name, its := strings.CutPrefix(path, detectorScope+"/"+backboneScope+"/")
		if _, set := own[name]; its && !set && slices.Contains(encoding.Params(), name) {
			if s.Recipe.Params == nil {
				s.Recipe.Params = map[string]any{}
			}
			s.Recipe.Params[name] = cmp.Or(s.Recipe.Params[name], value)
		}
	}
	if len(s.Categories) != s.Recipe.Detector.Backbone.Classes {
		return s, fmt.Errorf("detect: %s has %d categories for %d classes", c.Path, len(s.Categories),
			s.Recipe.Detector.Backbone.Classes)
	}
	return s, nil
}

// objectsOf tells a set from others: SHA-256 of the file that lists its objects, or its name and its scenes' size.
func objectsOf(s *scenes.Set) string {
	return cmp.Or(s.SHA256, fmt.Sprintf("%s, %dx%d", s.Name, s.Rows, s.Cols))
}

// identity is what must be the same to continue the run. The validation set chooses the best checkpoint. Earlier
// versions lack it and the objects.
func (s state) identity() engine.RunIdentity {
	return engine.RunIdentity{Recipe: s.Recipe, Seed: s.Seed, From: cmp.Or(s.From, engine.Scratch), Dataset: s.Dataset,
		Data: s.Objects, Other: map[string]string{"scenes": strconv.Itoa(s.Scenes), "validation": s.Validation}}
}

// task is the engine.Task of a Run.
type task struct {
	Run
	trainer  *engine.Trainer
	detector *Detector
	state    state
	confirm  func() error // whether a checkpoint had all variables of the detector, after the first step
	order    []int        // of the scenes in the epoch of the current step
	step     int          // of the batch
	pixels   *tensors.Tensor
	truths   []truth
	rows     []report.Result
}

// newTask returns the task of a prepared run.
func newTask(run Run) (t *task, err error) {
	r := run.Recipe
	t = &task{Run: run, confirm: func() error { return nil }, step: -1,
		state: state{Recipe: r, Categories: run.Train.Categories, Seed: run.Seed, Dataset: run.Dataset,
			Scenes: run.Train.Len, Objects: objectsOf(run.Train)}}
	if v := run.Validation; v != nil && objectsOf(v.Scenes) != t.state.Objects { // no part of the training images
		t.state.Validation = fmt.Sprintf("%d scenes of %s", v.Scenes.Len, objectsOf(v.Scenes))
	}
	if run.source != nil {
		t.state.From = run.source.SHA256
	}
	if t.detector, err = newDetector(run.Backend, r, t.state.Categories, run.Seed); err != nil {
		return nil, err
	}
	b := r.Detector.Backbone
	r.Optimizer.Schedule = r.schedule()
	t.trainer = engine.NewTrainer(engine.Training{
		Task: t, Backend: run.Backend, Store: t.detector.store, Network: detectorScope, LossNames: r.Detector.lossNames(),
		Job:       report.Job{Recipe: r.Name, Dataset: run.Dataset, Fraction: 1, Encoding: b.Position, Seed: run.Seed},
		Optimizer: r.Optimizer,
		Factor:    func(variable string) float64 { return b.learningRateFactor(variable, r.Optimizer.LayerDecay) },
		BatchSize: r.BatchSize, GradAccumSteps: 1, PerPass: run.Train.Len / r.BatchSize, Steps: r.Steps,
		Interval: r.EvalEverySteps,
		Dir:      run.Dir, Progress: run.Progress, Logger: run.Logger,
	})
	return t, nil
}

func ofDetector(variable string) bool { return strings.HasPrefix(variable, detectorScope+"/") }

// Losses is the second half of a step: the losses on the host's samples, in the order of Config.lossNames. The inputs
// are inputs.list.
func (t *task) Losses(scope *model.Scope, in []*Node) []*Node {
	return t.Recipe.Detector.losses(scope.Store().Scope(detectorScope), inputsOf(in))
}

// Start loads the pretrained backbone, if there is one.
func (t *task) Start() error {
	s := t.source
	if s == nil {
		return nil
	}
	t.trainer.Logger.Info(fmt.Sprintf("starting from %s (SHA-256 %.12s…): %s", t.From, s.SHA256, s.Report[0]))
	if own, theirs := t.Recipe.Detector.Backbone.Position, s.Config.Position; own != theirs {
		t.trainer.Logger.Info(fmt.Sprintf("positions: %s in place of the checkpoint's %s", own, theirs))
	}
	return t.detector.loadBackbone(s)
}

// Identity implements engine.Task.
func (t *task) Identity() engine.RunIdentity { return t.state.identity() }

// Load implements engine.Task.
func (t *task) Load(checkpoint *checkpoints.Checkpoint) (engine.RunIdentity, engine.TrainState, error) {
	s, err := stateOf(checkpoint)
	if err != nil {
		return engine.RunIdentity{}, engine.TrainState{}, err
	}
	t.state = s
	t.confirm = func() error { return checkpoint.Check(t.detector.store, nil) }
	return s.identity(), s.TrainState, checkpoint.Load(t.detector.store, nil)
}

// State implements engine.Task.
func (t *task) State(course engine.TrainState) any {
	s := t.state
	s.TrainState = course
	return s
}

// Begin implements engine.Task: Fetch reads the scenes.
func (t *task) Begin(int) error { return nil }

// Fetch reads the scenes of a step: a function of the seed and the step.
func (t *task) Fetch(step int) error {
	if step == t.step {
		return nil
	}
	r := t.Recipe
	perPass := t.Train.Len / r.BatchSize
	epoch, first := step/perPass, step%perPass*r.BatchSize
	if first == 0 || t.order == nil {
		t.order = data.Order(t.Seed, epoch, t.Train.Len, 1)
	}
	rows, cols := r.ScaleJitter.Height, r.ScaleJitter.Width
	pixels, truths := make([]uint8, r.BatchSize*rows*cols*3), make([]truth, r.BatchSize)
	var read errgroup.Group
	for i, index := range t.order[first : first+r.BatchSize] {
		read.Go(func() error {
			scene, err := t.Train.At(index)
			if err != nil {
				return err
			}
			scene = r.ScaleJitter.Apply(scene, t.Seed, epoch, index)
			copy(pixels[i*rows*cols*3:], scene.Image.Pixels)
			truths[i], err = truthOf(scene, r.Detector.Backbone.Classes)
			return err
		})
	}
	if err := read.Wait(); err != nil {
		return err
	}
	t.step, t.pixels, t.truths = step, tensors.FromFlatDataAndDimensions(pixels, r.BatchSize, rows, cols, 3), truths
	return nil
}

// Call implements engine.Task. The current detector proposes boxes, the host samples, and the program computes the
// losses.
func (t *task) Call(program *model.Exec, step, _ int, scalars []float32) ([]*tensors.Tensor, error) {
	in, err := t.inputs(step)
	if err != nil {
		return nil, err
	}
	outputs, err := program.Call(append(xslices.Map(in.list(), func(x *tensors.Tensor) any { return x }), scalars)...)
	if err != nil {
		return nil, err
	}
	confirm := t.confirm
	t.confirm = func() error { return nil }
	return outputs, confirm()
}

// inputs returns the inputs of a step, after Fetch: a function of the weights, the seed and the step.
func (t *task) inputs(step int) (inputs[*tensors.Tensor], error) {
	return t.detector.inputs(t.pixels, t.truths, t.Seed<<32+int64(step))
}

// Evaluate implements engine.Task: the score is the average precision of boxes.
func (t *task) Evaluate(row *report.Eval) (score float64, measured bool, err error) {
	if t.Validation == nil {
		return 0, false, nil
	}
	row.DetectionMetrics, _, err = t.detector.Evaluate(*t.Validation)
	return float64(row.Boxes["AP"]), true, err
}

// Finish evaluates the tests that are not evaluated yet.
func (t *task) Finish(ctx context.Context) error {
	var known report.Rows
	if t.Dir != "" {
		var err error
		if known, err = report.ReadFiles(filepath.Join(t.Dir, engine.RowsFile)); err != nil {
			return err
		}
	}
	for _, test := range t.Tests {
		row, err := t.result(test)
		if err != nil {
			return err
		}
		if before := measured(known.Results, row); before != nil {
			t.rows = append(t.rows, *before)
			continue
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w before it was tested at %s", engine.ErrInterrupted, row.ImageSize)
		}
		if row, err = t.test(test, known.Results); err != nil {
			return err
		}
		t.rows, known.Results = append(t.rows, row), append(known.Results, row)
	}
	return nil
}

// result is the row of a test before its evaluation. At another size than in training, the recipe's name contains the
// size.
func (t *task) result(test Test) (report.Result, error) {
	objects := cmp.Or(test.Scenes.SHA256, test.Scenes.Name)
	if test.Rows != 0 { // so ImageSize is not the size of generated scenes
		objects = objectsOf(test.Scenes)
	}
	row, err := t.trainer.Result(struct {
		Recipe
		From       string `json:"from,omitempty"`
		TestScenes int    `json:"test_scenes"`
		Objects    string `json:"test_objects,omitempty"` // SHA-256 of the file that lists the objects, or their name
	}{t.Recipe, t.state.From, test.Scenes.Len, objects})
	size := func(rows, cols int) string { return fmt.Sprintf("%dx%d", rows, cols) }
	row.ImageSize = size(test.canvas(t.Recipe.Detector))
	row.Weights = report.Weights{Name: checkpoints.LastDir, Step: row.Steps}
	if b := t.Recipe.Detector.Backbone; row.ImageSize != size(b.ImageRows, b.ImageCols) {
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

// test evaluates a test and records it, with the detections in COCO's form in results-HxW.json, of the second known row
// of a size in results-HxW-2.json.
func (t *task) test(test Test, known []report.Result) (row report.Result, err error) {
	numbers, found, err := t.detector.Evaluate(test)
	if err != nil {
		return row, err
	}
	if row, err = t.result(test); err != nil { // after a program has used all parameters
		return row, err
	}
	row.DetectionMetrics = numbers
	if t.Dir != "" {
		name, n := "results-"+row.ImageSize, 1
		for _, r := range known {
			if r.ImageSize == row.ImageSize {
				n++
			}
		}
		if n > 1 {
			name += fmt.Sprintf("-%d", n)
		}
		path := filepath.Join(t.Dir, name+".json")
		write := func(w io.Writer) error { return coco.WriteResults(w, found) }
		if err := disk.Write(path, write); err != nil {
			return row, err
		}
	}
	row.Stamp(time.Now())
	return row, t.trainer.Record(row)
}
