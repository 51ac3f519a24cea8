// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
)

// trainer is a run under way: what a step needs and changes.
type trainer struct {
	Run
	model          *Model
	collect, apply *model.Exec // in a group apply is of what it has summed
	images, held   pixels      // trained on, and held out; the latter may be none
	order          order
	feed           *data.Feed  // of images that are streamed, nil else
	read           *data.Batch // what it read for the step to come, nil before
	job            report.Job
	perPass        int // whole batches of an epoch
	steps          int // in all
	warmup         int // steps
	interval       int // steps between evaluations
	step           int
	state          state
	exchange       exchange          // with the other processes of a group
	pending        []*tensors.Tensor // losses not read back yet, so that an accelerator need not wait for them
	lastLoss       float64
	started        time.Time
	startStep      int
	saved          time.Time
}

// newTrainer returns the trainer of a prepared run before its first step, its model without weights.
func newTrainer(run Run) (*trainer, error) {
	r := run.Recipe
	images, held, err := r.split(run.Train)
	if err != nil {
		return nil, err
	}
	devices, err := newDevices(run.Backend, run.Devices, r)
	if err != nil {
		return nil, err
	}
	if r.Model.Recompute && run.Backend.Name() == "onnxruntime" {
		return nil, errors.New("finetune: model.recompute is set, but ONNX Runtime knows no barrier to compute behind: use " +
			"accumulate to save memory, or another backend")
	}
	if exist := run.Backend.NumDevices(); exist > 1 {
		run.Log(fmt.Sprintf("%d of %d devices share each batch", devices.count(), exist))
	}
	if images.Len() < r.BatchSize {
		return nil, fmt.Errorf("finetune: %d training images are fewer than one batch of %d: lower batch_size",
			images.Len(), r.BatchSize)
	}
	t := &trainer{
		Run: run, images: pixels{set: images}, held: pixels{set: held}, perPass: images.Len() / r.BatchSize,
		started: time.Now(), saved: time.Now(), lastLoss: math.NaN(),
		job: report.Job{Recipe: r.Name, Dataset: run.Train.Name, Fraction: run.Fraction, Encoding: run.Label,
			Seed: run.Seed},
		state: state{Recipe: r, Classes: images.Classes, Seed: run.Seed, Data: images.Fingerprint(), Best: -1,
			From: run.source},
	}
	t.exchange = exchange{Group: run.Group, parts: r.Accumulate}
	t.steps, t.warmup, t.interval = r.schedule(t.perPass)
	first, end := t.exchange.own()
	part := r.BatchSize / r.Accumulate
	t.order = order{augment: r.Augment, seed: run.Seed, images: images.Len(), batch: r.BatchSize, from: first * part,
		to: end * part}
	if t.model, err = newModel(run.Backend, r, images.Classes, run.Seed); err != nil {
		return t, err
	}
	t.images.devices = devices // also where no image is uploaded
	return t, t.model.spread(devices)
}

// equip makes the programs and brings the images to the device.
func (t *trainer) equip() (err error) {
	augment := t.images.set.InGraph(t.Recipe.Augment)
	if t.Group.Size() > 1 {
		t.apply, err = sumsProgram(t.model)
	} else {
		t.apply, err = trainProgram(t.model, augment, true)
	}
	if err != nil {
		return err
	}
	if t.Recipe.Accumulate > 1 {
		if t.collect, err = trainProgram(t.model, augment, false); err != nil {
			return err
		}
	}
	if t.images.set.Fed(t.Recipe.Augment) {
		t.images.set.LeaveOut(t.state.Damaged...)
		t.feed, err = t.images.set.Feed(t.Recipe.Augment, t.Seed, t.Recipe.BatchSize/t.Recipe.Accumulate,
			t.order.between(t.step, t.steps))
		if err != nil {
			return err
		}
	}
	if t.feed == nil {
		t.images = t.model.upload(t.images.set)
	}
	if t.held.set != nil {
		t.held = t.model.upload(t.held.set)
	}
	return nil
}

// update makes one optimizer step.
func (t *trainer) update() error {
	r := t.Recipe
	if err := t.fetch(); err != nil {
		return err
	}
	epoch := t.step / t.perPass
	var indices []int
	if t.read != nil {
		indices = t.read.Indices // with others in place of damaged pictures
	} else {
		_, indices = t.order.of(t.step)
	}
	size := r.BatchSize / r.Accumulate // of a part
	augment, scalars := t.images.set.InGraph(r.augmentation(epoch)), t.scalars()
	var losses []*tensors.Tensor
	first, end := t.exchange.own()
	for i := first; i < end; i++ {
		if err := t.stream(i); err != nil {
			return err
		}
		from, to := (i-first)*size, (i-first+1)*size
		plan := augment.Plan(t.images.set, t.Seed, epoch, t.step%t.perPass*r.Accumulate+i, indices[from:to])
		program := t.apply
		if t.Group.Size() > 1 || i < r.Accumulate-1 {
			program = t.collect
		}
		var shown *data.Set
		if t.read != nil {
			shown = t.read.Part(from, to)
		}
		outputs, err := t.images.call(program, plan, shown, scalars)
		if err != nil {
			return fmt.Errorf("finetune: step %d: %w", t.step, err)
		}
		losses = append(losses, outputs[0])
		for _, o := range outputs[1:] {
			_ = o.FinalizeAll()
		}
	}
	if t.Group.Size() > 1 {
		var err error
		if losses, err = t.exchange.sum(t.model.store, losses); err != nil {
			return err
		}
		outputs, err := t.model.devices.call(t.apply, []*tensors.Tensor{tensors.FromValue(scalars)})
		if err != nil {
			return fmt.Errorf("finetune: step %d: %w", t.step, err)
		}
		_ = outputs[0].FinalizeAll()
	}
	t.read = nil
	t.pending = append(t.pending, losses...)
	if err := t.model.confirm(); err != nil {
		return err
	}
	if t.step == 0 && (t.source != nil || r.Freeze != "") {
		t.Log(fmt.Sprintf("training %s", t.model.groupsLine()))
	}
	if t.step == 0 && r.EMA > 0 {
		// The average starts at the weights after the first step, not at zero.
		if err := t.model.startAverage(); err != nil {
			return err
		}
	}
	t.step++
	return t.stream(0) // what is saved does not say which parts this process computed
}

// stream gives dropout and drop path their generator for a part of the step to come, a function of seed, step and part:
// whoever computes the part draws the same. A batch in one part goes on with the generator of the step before.
func (t *trainer) stream(part int) error {
	if t.Recipe.Accumulate == 1 {
		return nil
	}
	return t.model.store.SetRNGStateFromSeed(int64(data.Draw("dropout", t.Seed, t.step, part).Uint64()))
}

// fetch reads the pictures of the current step that this process computes, where they come from a feed: all before any
// program runs, so that one that cannot be read leaves the state between two steps.
func (t *trainer) fetch() (err error) {
	if t.feed != nil && t.read == nil {
		if t.read, err = t.feed.Next(); err != nil {
			return fmt.Errorf("finetune: %w", err)
		}
	}
	return nil
}

// scalars are the numbers of the current step that the programs take as input.
func (t *trainer) scalars() []float32 {
	r := t.Recipe
	out := make([]float32, numScalars)
	copy(out, r.Optimizer.Scalars(LearningRate(r.LearningRate, t.step, t.warmup, t.steps), t.step))
	// A young average would be ruled by its start: it looks back as far as there is a past, up to 1/(1-decay) steps.
	out[scalarEMA] = float32(min(r.EMA, float64(1+t.step)/float64(10+t.step)))
	return out
}

// drain reads the losses back and stops a run that diverged.
func (t *trainer) drain() error {
	for i, p := range t.pending {
		loss, ok := p.Value().(float32)
		if !ok || math.IsNaN(float64(loss)) || math.IsInf(float64(loss), 0) {
			return fmt.Errorf("finetune: the loss became %v about step %d: %w; lower learning_rate or set optimizer.clip_norm",
				loss, t.step-(len(t.pending)-i)/t.Recipe.Accumulate+1, ErrDiverged)
		}
		t.lastLoss = float64(loss)
		t.state.LossSum += float64(loss)
		t.state.LossSteps++
		_ = p.FinalizeAll()
	}
	t.pending = t.pending[:0]
	return nil
}

// imagesPerSecond is the speed of the timed steps, 0 before the first of them.
func (t *trainer) imagesPerSecond() float64 {
	if t.state.TimedSteps == 0 {
		return 0
	}
	return float64(t.state.TimedSteps*t.Recipe.BatchSize) / t.state.TimedSeconds
}

// close frees what the run holds on the device; the model stays.
func (t *trainer) close() {
	if t.feed != nil {
		t.feed.Close()
	}
	t.images.finalize()
	t.held.finalize()
	t.apply.Finalize()
	if t.collect != nil {
		t.collect.Finalize()
	}
}
