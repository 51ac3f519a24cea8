// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
)

// Do trains, or goes on training from the run directory's last checkpoint, and returns the model with its final weights
// and the run's row. On ErrInterrupted the state is saved.
func (run Run) Do(ctx context.Context) (m *Model, row report.Result, err error) {
	if run, err = run.prepared(); err != nil {
		return nil, row, err
	}
	if ctx.Err() != nil && run.Group.Size() == 1 { // others would wait
		return nil, row, fmt.Errorf("%w before it began", ErrInterrupted)
	}
	if run.writes() {
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
	t.model.group = t.Group
	defer func() { t.model.group = nil }()
	row, done := t.recorded()
	if err := t.agree(done); err != nil {
		return nil, row, err
	}
	if done {
		return t.model, row, t.model.swapAverage() // as finish does; nothing happens without averages
	}
	if err := t.before(); err != nil {
		return nil, row, err
	}
	if err := t.owed(); err != nil {
		return nil, row, err
	}
	for t.step < t.steps {
		unread := t.fetch()
		stop, err := anyone(t.Group, ctx.Err() != nil || unread != nil)
		if err != nil {
			return nil, row, err
		}
		if stop {
			return nil, row, t.stop(cmp.Or(unread, ErrInterrupted))
		}
		if err := t.advance(); errors.As(err, new(*data.PictureError)) { // of those held out
			return nil, row, t.stop(err)
		} else if err != nil {
			return nil, row, err
		}
	}
	if row, err = t.finish(); err != nil {
		return nil, row, err
	}
	_, err = anyone(t.Group, false)
	return t.model, row, err
}

// stop saves what was done and says why the run ends: with the same call it goes on from there.
func (t *trainer) stop(cause error) error {
	if err := t.saveProgress(); err != nil {
		return fmt.Errorf("interrupted at step %d of %d and not saved: %w", t.step, t.steps, err)
	}
	if !errors.Is(cause, ErrInterrupted) {
		cause = fmt.Errorf("%w; saved", cause)
	}
	_, err := anyone(t.Group, false) // who ends at once would end the others while they write
	return errors.Join(fmt.Errorf("%w at step %d of %d", cause, t.step, t.steps), err)
}

// prepared fills in defaults and refuses what cannot be trained, before anything is on disk.
func (run Run) prepared() (Run, error) {
	run.SaveEvery = cmp.Or(run.SaveEvery, 5*time.Minute)
	run.Fraction = cmp.Or(run.Fraction, 1)
	if run.Group == nil {
		run.Group = alone{}
	}
	if run.Log == nil || run.Group.Rank() > 0 {
		run.Log = func(string) {}
	}
	if run.Group.Rank() > 0 {
		run.Progress = nil
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
	if recipe, err = recipe.share(run.Group); err != nil {
		return run, err
	}
	run.Recipe, err = recipe.fit(run.Train)
	run.Label = cmp.Or(run.Label, run.Recipe.Model.Position)
	return run, err
}

// begin prepares data, model and programs, and resumes if there is something to resume.
func (run Run) begin() (*trainer, error) {
	t, err := newTrainer(run)
	if err != nil {
		return nil, err
	}
	if err := t.resume(); err != nil {
		return nil, err
	}
	return t, t.equip()
}

// advance makes one optimizer step, and what is due after it.
func (t *trainer) advance() error {
	began := time.Now()
	if err := t.update(); err != nil {
		return err
	}
	evaluate := t.step%t.interval == 0 || t.step == t.steps
	if len(t.pending) >= 10*t.Recipe.Accumulate || evaluate {
		if err := t.drain(); err != nil {
			return err
		}
	}
	if t.step > t.startStep+1 {
		t.state.TimedSteps++
		t.state.TimedSeconds += time.Since(began).Seconds()
	}
	progress := Progress{Step: t.step, Steps: t.steps, Loss: t.lastLoss, ImagesPerSecond: t.imagesPerSecond()}
	if evaluate {
		row, err := t.evaluate()
		if err != nil {
			return err
		}
		progress.Eval = &row
	} else if time.Since(t.saved) >= t.SaveEvery {
		if err := t.save(lastDir); err != nil {
			return err
		}
	}
	if t.Progress != nil {
		done, spent := t.step-t.startStep, time.Since(t.started)
		progress.Left = spent / time.Duration(done) * time.Duration(t.steps-t.step)
		t.Progress(progress)
	}
	return nil
}
