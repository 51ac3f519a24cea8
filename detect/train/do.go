// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
)

// trainer is a run under way.
type trainer struct {
	Run
	model     *Model
	program   *model.Exec
	confirm   func() error // whether a checkpoint had all that the detector has, after the first step
	order     []int        // of the scenes in this epoch
	perPass   int          // whole batches of an epoch
	step      int
	startStep int
	state     state
	job       report.Job
	started   time.Time
	saved     time.Time
}

// Do trains, or goes on training from the run directory's last checkpoint, and returns the detector and a row for each
// of the tests. On finetune.ErrInterrupted the state is saved.
func (run Run) Do(ctx context.Context) (m *Model, rows []report.Result, err error) {
	if run, err = run.prepared(); err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("%w before it began", finetune.ErrInterrupted)
	}
	if run.Dir != "" {
		unlock, lockErr := checkpoints.Lock(run.Dir)
		if lockErr != nil {
			return nil, nil, lockErr
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	t, err := run.begin()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if t.program.Finalize(); err != nil {
			t.model.Finalize()
		}
	}()
	for t.step < t.Recipe.Steps {
		if ctx.Err() != nil {
			if err := t.saveProgress(); err != nil {
				return nil, nil, fmt.Errorf("interrupted at step %d of %d and not saved: %w", t.step, t.Recipe.Steps, err)
			}
			return nil, nil, fmt.Errorf("%w at step %d of %d", finetune.ErrInterrupted, t.step, t.Recipe.Steps)
		}
		if err := t.advance(); err != nil {
			return nil, nil, err
		}
	}
	rows, err = t.test(ctx)
	return t.model, rows, err
}

// prepared fills in defaults and refuses what cannot be trained, before anything is on disk.
func (run Run) prepared() (Run, error) {
	run.SaveEvery = cmp.Or(run.SaveEvery, 5*time.Minute)
	if run.Log == nil {
		run.Log = func(string) {}
	}
	if run.Train == nil || run.Train.Len() < max(1, run.Recipe.BatchSize) {
		return run, fmt.Errorf("detection: fewer scenes to train on than one batch of %d: lower batch_size",
			run.Recipe.BatchSize)
	}
	classes := len(run.Train.Categories())
	for i, test := range append(run.Tests, held(run.Held)...) {
		if got := len(test.Set.Categories()); got != classes {
			return run, fmt.Errorf("detection: test %d has %d categories, the scenes to train on %d", i, got, classes)
		}
	}
	c := &run.Recipe.Detector
	c.Backbone.Classes = classes
	if run.From != "" {
		var err error
		if run.source, err = checkpoints.Import(run.From, run.Import); err != nil {
			return run, err
		}
		if s := run.source; c.Std == [3]float64{} && len(s.Mean) == 3 && len(s.Std) == 3 {
			c.Mean, c.Std = [3]float64(s.Mean), [3]float64(s.Std)
		}
	}
	run.Recipe = run.Recipe.WithDefaults()
	run.Label = cmp.Or(run.Label, run.Recipe.Detector.Backbone.Position)
	return run, run.Recipe.Validate()
}

func held(test *Test) []Test {
	if test == nil {
		return nil
	}
	return []Test{*test}
}

// begin makes the model and its program, and resumes if there is something to resume.
func (run Run) begin() (t *trainer, err error) {
	r := run.Recipe
	t = &trainer{
		Run: run, perPass: run.Train.Len() / r.BatchSize, started: time.Now(), saved: time.Now(),
		confirm: func() error { return nil },
		job: report.Job{Recipe: r.Name, Dataset: run.Dataset, Fraction: 1, Encoding: run.Label,
			Seed: run.Seed},
		state: state{Recipe: r, Categories: run.Train.Categories(), Seed: run.Seed, Dataset: run.Dataset,
			Scenes: run.Train.Len(), Best: -1},
	}
	if run.source != nil {
		t.state.From = run.source.SHA256
	}
	if t.model, err = newModel(run.Backend, r, t.state.Categories, run.Seed); err != nil {
		return nil, err
	}
	if t.program, err = stepProgram(t.model); err != nil {
		return nil, err
	}
	return t, t.resume()
}

// start gives the backbone what it starts with besides drawn weights.
func (t *trainer) start() error {
	if t.source == nil {
		return nil
	}
	return t.model.LoadBackbone(t.source.Config, t.source.Params, t.source.Variables)
}

// resume takes over the newest whole checkpoint of the run directory. Without one, the run starts.
func (t *trainer) resume() error {
	if t.Dir == "" {
		return t.start()
	}
	checkpoint, skipped, err := checkpoints.Latest(filepath.Join(t.Dir, checkpoints.LastDir))
	for _, s := range skipped {
		t.Log(s.String())
	}
	if err != nil {
		return err
	}
	if checkpoint == nil {
		return t.start()
	}
	s, err := stateOf(checkpoint)
	if err != nil {
		return err
	}
	if err := s.sameRun(t.state); err != nil {
		return fmt.Errorf("detection: %s is of another run: %w: use another directory", checkpoint.Path, err)
	}
	if err := checkpoint.Load(t.model.store, nil); err != nil {
		return err
	}
	t.confirm = func() error { return checkpoint.Check(t.model.store, nil) }
	t.state, t.step, t.startStep = s, int(checkpoint.Step), int(checkpoint.Step)
	t.Log(fmt.Sprintf("resuming at step %d of %d", t.step, t.Recipe.Steps))
	return nil
}

// advance makes one optimizer step, and what is due after it.
func (t *trainer) advance() error {
	began := time.Now()
	loss, err := t.update()
	if err != nil {
		return err
	}
	if t.step == t.startStep+1 {
		if err := t.confirm(); err != nil {
			return err
		}
	} else {
		t.state.TimedSteps++
		t.state.TimedSeconds += time.Since(began).Seconds()
	}
	t.state.LossSum += loss
	t.state.LossSteps++
	progress := finetune.Progress{Step: t.step, Steps: t.Recipe.Steps, Loss: loss, ImagesPerSecond: t.imagesPerSecond()}
	if t.step%t.Recipe.EvalSteps == 0 || t.step == t.Recipe.Steps {
		row, err := t.evaluate()
		if err != nil {
			return err
		}
		progress.Eval = &row
	} else if time.Since(t.saved) >= t.SaveEvery {
		if err := t.save(checkpoints.LastDir); err != nil {
			return err
		}
	}
	if t.Progress != nil {
		done, spent := t.step-t.startStep, time.Since(t.started)
		progress.Left = spent / time.Duration(done) * time.Duration(t.Recipe.Steps-t.step)
		t.Progress(progress)
	}
	return nil
}

// imagesPerSecond is the speed of the timed steps, 0 before the first of them.
func (t *trainer) imagesPerSecond() float64 {
	if t.state.TimedSteps == 0 {
		return 0
	}
	return float64(t.state.TimedSteps*t.Recipe.BatchSize) / t.state.TimedSeconds
}

// saveProgress saves what was done since the start or resume, if anything was.
func (t *trainer) saveProgress() error {
	if t.step == t.startStep {
		return nil
	}
	return t.save(checkpoints.LastDir)
}

// save writes a checkpoint of the state between two steps into a directory of the run's.
func (t *trainer) save(dir string) error {
	if t.Dir == "" {
		return nil
	}
	s := t.state
	s.Seconds += time.Since(t.started).Seconds()
	_, err := checkpoints.Saver{Dir: filepath.Join(t.Dir, dir), Keep: 1}.Save(t.model.store,
		int64(t.step), s)
	t.saved = time.Now()
	return err
}
