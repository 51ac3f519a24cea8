// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/internal/random"
)

// Update makes one optimizer step.
func (t *Trainer) Update() error {
	if err := t.Task.Fetch(t.step); err != nil {
		return err
	}
	scalars := t.Optimizer.scalars(t.step)
	var losses []*tensors.Tensor
	first, end := t.own()
	for part := first; part < end; part++ {
		if err := t.stream(part); err != nil {
			return err
		}
		program := t.apply
		if t.Group.Size() > 1 || part < t.GradAccumSteps-1 {
			program = t.collect
		}
		outputs, err := t.Task.Call(program, t.step, part, scalars)
		if err != nil {
			return fmt.Errorf("training: step %d: %w", t.step, err)
		}
		losses = append(losses, outputs[0])
		for _, o := range outputs[1:] {
			_ = o.FinalizeAll()
		}
	}
	if t.Group.Size() > 1 {
		var err error
		if losses, err = t.sum(losses); err != nil {
			return err
		}
		outputs, err := t.Devices.Call(t.apply, []*tensors.Tensor{tensors.FromValue(scalars)})
		if err != nil {
			return fmt.Errorf("training: step %d: %w", t.step, err)
		}
		_ = outputs[0].FinalizeAll()
	}
	t.pending = append(t.pending, losses...)
	if t.step++; t.step == 1 {
		t.describeGroups()
	}
	return t.stream(0) // checkpoints do not depend on which micro-batches this process computed
}

// stream seeds the generator of dropout and drop path for a micro-batch of the current step, by seed, step and part:
// the same draws in any process. Batches without micro-batches continue the generator of the previous step.
func (t *Trainer) stream(part int) error {
	if t.GradAccumSteps == 1 {
		return nil
	}
	return t.Store.SetRNGStateFromSeed(int64(random.Draw("dropout", t.Job.Seed, t.step, part).Uint64()))
}

// Step is the number of steps made.
func (t *Trainer) Step() int { return t.step }

// Loss returns the loss of the last step, the mean over its micro-batches.
func (t *Trainer) Loss() (float64, error) {
	err := t.drain()
	return t.lastLoss, err
}

// drain reads the losses back and stops a run that diverged.
func (t *Trainer) drain() error {
	for i, p := range t.pending {
		losses, err := tensors.CopyFlatData[float32](p)
		if err != nil {
			return err
		}
		if i%t.GradAccumSteps == 0 {
			t.lastLoss = 0
		}
		sum := 0.0
		for k, loss := range losses {
			if math.IsNaN(float64(loss)) || math.IsInf(float64(loss), 0) {
				return fmt.Errorf("training: %s became %v about step %d: %w; lower learning_rate or set optimizer.clip_norm",
					strings.TrimSpace("the loss "+t.LossNames[k]), loss, t.step-(len(t.pending)-i)/t.GradAccumSteps+1, ErrDiverged)
			}
			sum += float64(loss)
		}
		t.lastLoss += sum / float64(t.GradAccumSteps)
		t.course.LossSum += sum
		t.course.LossSteps++
		_ = p.FinalizeAll()
	}
	t.pending = t.pending[:0]
	return nil
}

// evaluates reports whether an evaluation follows the last step.
func (t *Trainer) evaluates() bool { return t.step%t.Interval == 0 || t.step == t.Steps }

// Exhausted reports whether no evaluation among the last Patience was better than those before.
func (t *Trainer) Exhausted(step int, c TrainState) bool {
	// BestStep is between two evaluations if it was the last step of a run that was extended.
	return t.Patience > 0 && c.Best >= 0 && step/t.Interval-c.BestStep/t.Interval >= t.Patience
}

// Close frees the programs but not the variables.
func (t *Trainer) Close() {
	for _, program := range []*model.Exec{t.apply, t.collect} {
		if program != nil {
			program.Finalize()
		}
	}
}

// Train makes all steps, from the newest checkpoint of the directory if there is one, and finishes the task. It locks
// the directory. When it returns ErrInterrupted, the state is saved. At the end it frees the programs but not the
// variables.
func (t *Trainer) Train(ctx context.Context) (err error) {
	defer t.Close()
	if ctx.Err() != nil && t.Group.Size() == 1 { // others would wait
		return fmt.Errorf("%w before it began", ErrInterrupted)
	}
	if t.writes() {
		unlock, lockErr := checkpoints.Lock(t.Dir)
		if lockErr != nil {
			return lockErr
		}
		defer func() { err = errors.Join(err, unlock()) }()
		if err := t.sweep(); err != nil {
			return err
		}
	}
	if err := t.Begin(); err != nil {
		return err
	}
	if t.step > 0 && t.course.LossSteps > 0 && t.evaluates() { // an evaluation, which clears the sum, was interrupted
		if _, err := t.evaluate(); err != nil {
			return err
		}
	}
	for t.step < t.Steps && !t.Exhausted(t.step, t.course) {
		began := time.Now()
		unread := t.Task.Fetch(t.step)
		t.waited = time.Since(began)
		stop, err := parallel.Any(t.Group, ctx.Err() != nil || unread != nil)
		if err != nil {
			return err
		}
		if stop {
			return t.stop(cmp.Or(unread, ErrInterrupted))
		}
		if err := t.Advance(); errors.As(err, new(*data.ImageError)) { // of the validation split
			return t.stop(err)
		} else if err != nil {
			return err
		}
	}
	if _, err := parallel.Any(t.Group, false); err != nil { // the first may still save what the others would now open
		return err
	}
	if err := t.Task.Finish(ctx); err != nil {
		return err
	}
	_, err = parallel.Any(t.Group, false)
	return err
}

// Begin starts or resumes the training and compiles its programs.
func (t *Trainer) Begin() (err error) {
	if err := t.resume(); err != nil {
		return err
	}
	if t.Group.Size() > 1 {
		t.apply, err = t.sumsProgram()
	} else {
		t.apply, err = t.stepProgram(true)
	}
	if err == nil && t.GradAccumSteps > 1 {
		t.collect, err = t.stepProgram(false)
	}
	if err != nil {
		return err
	}
	if err := t.agree(); err != nil {
		return err
	}
	if err := t.describe(); err != nil {
		return err
	}
	return t.Task.Begin(t.step)
}

// stop saves the state and returns why the run ends: the same call resumes it.
func (t *Trainer) stop(cause error) error {
	if t.step > t.startStep {
		if err := t.save(checkpoints.LastDir); err != nil {
			return fmt.Errorf("interrupted at step %d of %d and not saved: %w", t.step, t.Steps, err)
		}
	}
	if !errors.Is(cause, ErrInterrupted) {
		cause = fmt.Errorf("%w; saved", cause)
	}
	_, err := parallel.Any(t.Group, false) // ending at once would end the other processes while they write
	return errors.Join(fmt.Errorf("%w at step %d of %d", cause, t.step, t.Steps), err)
}

// Advance makes one optimizer step, then evaluates and saves if due.
func (t *Trainer) Advance() error {
	began := time.Now()
	if err := t.Update(); err != nil {
		return err
	}
	evaluate, first := t.evaluates(), t.step == t.startStep+1
	if len(t.pending) >= 10*t.GradAccumSteps || evaluate || first {
		if err := t.drain(); err != nil {
			return err
		}
	}
	if first {
		t.evalTime = time.Since(began) // a guess: both compile a program
	} else {
		t.course.TimedSteps++
		t.course.TimedSeconds += (t.waited + time.Since(began)).Seconds()
	}
	progress := Progress{Step: t.step, Steps: t.Steps, Loss: t.lastLoss,
		ImagesPerSecond: t.course.imagesPerSecond(t.BatchSize)}
	if evaluate {
		began := time.Now()
		row, err := t.evaluate()
		if err != nil {
			return err
		}
		t.evalTime = min(t.evalTime, time.Since(began))
		progress.Eval = &row
	} else if due := t.Group.Size() == 1 || len(t.pending) == 0; due && time.Since(t.saved) >= t.SaveEvery ||
		t.SaveSteps > 0 && t.step%t.SaveSteps == 0 {
		if err := t.save(checkpoints.LastDir); err != nil {
			return err
		}
	}
	if t.Progress != nil {
		if left := t.Steps - t.step; left > 0 && t.course.TimedSteps > 0 {
			evaluations := (left + t.step%t.Interval + t.Interval - 1) / t.Interval
			step := time.Duration(t.course.TimedSeconds / float64(t.course.TimedSteps) * float64(time.Second))
			progress.Left = step*time.Duration(left) + t.evalTime*time.Duration(evaluations)
		}
		t.Progress(progress)
	}
	return nil
}
