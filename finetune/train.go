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
)

// Train makes all steps from the newest checkpoint of the directory on, or from the first, and finishes the task, all
// while it holds the lock of the directory. On ErrInterrupted the state is saved.
func (t *Trainer) Train(ctx context.Context) (err error) {
	if ctx.Err() != nil && t.Group.Size() == 1 { // others would wait
		return fmt.Errorf("%w before it began", ErrInterrupted)
	}
	if t.writes() {
		unlock, lockErr := checkpoints.Lock(t.Dir)
		if lockErr != nil {
			return lockErr
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	if err := t.begin(); err != nil {
		return err
	}
	if err := t.evaluatePending(); err != nil {
		return err
	}
	for !t.ended() {
		unread := t.Task.Fetch(t.step)
		stop, err := anyone(t.Group, ctx.Err() != nil || unread != nil)
		if err != nil {
			return err
		}
		if stop {
			return t.stop(cmp.Or(unread, ErrInterrupted))
		}
		if err := t.advance(); errors.As(err, new(*data.ImageError)) { // of the validation split
			return t.stop(err)
		} else if err != nil {
			return err
		}
	}
	if err := t.Task.Finish(ctx); err != nil {
		return err
	}
	_, err = anyone(t.Group, false)
	return err
}

// begin starts or resumes the training and compiles its programs.
func (t *Trainer) begin() (err error) {
	if err := t.resume(); err != nil {
		return err
	}
	if t.Group.Size() > 1 {
		t.apply, err = t.sumsProgram()
	} else {
		t.apply, err = t.stepProgram(true)
	}
	if err == nil && t.Accumulate > 1 {
		t.collect, err = t.stepProgram(false)
	}
	if err != nil {
		return err
	}
	if err := t.agree(); err != nil {
		return err
	}
	return t.Task.Begin(t.step)
}

// stop saves what was done and returns why the run ends: the same call resumes it from there.
func (t *Trainer) stop(cause error) error {
	if err := t.saveProgress(); err != nil {
		return fmt.Errorf("interrupted at step %d of %d and not saved: %w", t.step, t.Steps, err)
	}
	if !errors.Is(cause, ErrInterrupted) {
		cause = fmt.Errorf("%w; saved", cause)
	}
	_, err := anyone(t.Group, false) // who ends at once would end the others while they write
	return errors.Join(fmt.Errorf("%w at step %d of %d", cause, t.step, t.Steps), err)
}

// advance makes one optimizer step, and what is due after it.
func (t *Trainer) advance() error {
	began := time.Now()
	if err := t.update(); err != nil {
		return err
	}
	evaluate := t.step%t.Interval == 0 || t.step == t.Steps
	if len(t.pending) >= 10*t.Accumulate || evaluate {
		if err := t.drain(); err != nil {
			return err
		}
	}
	if t.step > t.startStep+1 {
		t.course.TimedSteps++
		t.course.TimedSeconds += time.Since(began).Seconds()
	}
	progress := Progress{Step: t.step, Steps: t.Steps, Loss: t.lastLoss,
		ImagesPerSecond: t.course.imagesPerSecond(t.BatchSize)}
	if evaluate {
		row, err := t.evaluate()
		if err != nil {
			return err
		}
		progress.Eval = &row
	} else if time.Since(t.saved) >= t.SaveEvery || t.SaveSteps > 0 && t.step%t.SaveSteps == 0 {
		if err := t.save(Last); err != nil {
			return err
		}
	}
	if t.Progress != nil {
		done, spent := t.step-t.startStep, time.Since(t.started)
		progress.Left = spent / time.Duration(done) * time.Duration(t.Steps-t.step)
		t.Progress(progress)
	}
	return nil
}
