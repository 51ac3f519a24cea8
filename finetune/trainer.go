// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

// trainer is a run under way.
type trainer struct {
	Run
	model          *Model
	collect, apply *model.Exec
	train, val     pixels
	order          []int // of the training images in this epoch
	job            report.Job
	perPass        int // whole batches of an epoch
	steps          int // in all
	warmup         int // steps
	interval       int // steps between evaluations
	step           int
	state          state
	pending        []*tensors.Tensor // losses not read back yet, so that an accelerator need not wait for them
	lastLoss       float64
	started        time.Time
	startStep      int
	saved          time.Time
}

// begin prepares data, model and programs, and resumes if there is something to resume.
func (run Run) begin() (_ *trainer, err error) {
	recipe := run.Recipe
	train, val, err := recipe.split(run.Train)
	if err != nil {
		return nil, err
	}
	if train.Len() < recipe.BatchSize {
		return nil, fmt.Errorf("finetune: %d training images are fewer than one batch of %d: lower batch_size",
			train.Len(), recipe.BatchSize)
	}
	t := &trainer{
		Run: run, perPass: train.Len() / recipe.BatchSize, started: time.Now(), saved: time.Now(), lastLoss: math.NaN(),
		job: report.Job{Recipe: recipe.Name, Dataset: run.Train.Name, Fraction: run.Fraction,
			Encoding: run.Label, Seed: run.Seed},
		state: state{Recipe: recipe, Classes: train.Classes, Seed: run.Seed, Data: train.Fingerprint(), Best: -1,
			From: run.source},
	}
	t.steps, t.warmup, t.interval = recipe.schedule(t.perPass)
	if t.model, err = newModel(run.Backend, recipe, train.Classes, run.Seed); err != nil {
		return nil, err
	}
	if err := t.resume(); err != nil {
		return nil, err
	}
	if t.apply, err = trainProgram(t.model, true); err != nil {
		return nil, err
	}
	if recipe.Accumulate > 1 {
		if t.collect, err = trainProgram(t.model, false); err != nil {
			return nil, err
		}
	}
	t.train = t.model.upload(train)
	if val != nil {
		t.val = t.model.upload(val)
	}
	return t, nil
}

// split holds out the recipe's ValidationPart of a set; validation is nil where that is nothing. The split is the same
// for every seed: seeds are repetitions of one experiment.
func (r Recipe) split(set *data.Set) (train, validation *data.Set, err error) {
	return set.Split(int(math.Round(max(0, r.ValidationPart)*float64(set.Len()))), 0)
}

// advance makes one optimizer step, and what is due after it.
func (t *trainer) advance() error {
	r, began := t.Recipe, time.Now()
	epoch, batch := t.step/t.perPass, t.step%t.perPass
	if batch == 0 || t.order == nil {
		t.order = data.Order(t.Seed, epoch, t.train.set.Len())
	}
	part := r.BatchSize / r.Accumulate
	scalars := t.scalars()
	for i := range r.Accumulate {
		at := batch*r.BatchSize + i*part
		plan := r.augmentation(epoch).Plan(t.train.set, t.Seed, epoch, batch*r.Accumulate+i, t.order[at:at+part])
		program := t.apply
		if i < r.Accumulate-1 {
			program = t.collect
		}
		outputs, err := t.train.call(program, plan, scalars)
		if err != nil {
			return fmt.Errorf("finetune: step %d: %w", t.step, err)
		}
		t.pending = append(t.pending, outputs[0])
		for _, o := range outputs[1:] {
			_ = o.FinalizeAll()
		}
	}
	if err := t.model.confirm(); err != nil {
		return err
	}
	if t.step == 0 && (t.source != nil || r.Freeze != "") {
		t.Log(fmt.Sprintf("training %s", t.model.groupsLine()))
	}
	if t.step == 0 && r.EMA > 0 {
		// The average starts at the weights after the first step, not at zero.
		if err := t.startAverage(); err != nil {
			return err
		}
	}
	t.step++
	evaluate := t.step%t.interval == 0 || t.step == t.steps
	if len(t.pending) >= 10*r.Accumulate || evaluate {
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
		progress.Eval = row
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

// imagesPerSecond is the speed of the timed steps, 0 before the first of them.
func (t *trainer) imagesPerSecond() float64 {
	if t.state.TimedSteps == 0 {
		return 0
	}
	return float64(t.state.TimedSteps*t.Recipe.BatchSize) / t.state.TimedSeconds
}

// scalars are the numbers of the current step that the programs take as input.
func (t *trainer) scalars() []float32 {
	r := t.Recipe
	out := make([]float32, numScalars)
	copy(out, r.Optimizer.scalars(learningRate(r.LearningRate, t.step, t.warmup, t.steps), t.step))
	// A young average would be ruled by its start: it looks back as far as there is a past, up to 1/(1-decay) steps.
	out[scalarEMA] = float32(min(r.EMA, float64(1+t.step)/float64(10+t.step)))
	return out
}

// ErrDiverged says that the loss is not finite any more: the settings are not for this data.
var ErrDiverged = errors.New("training diverged")

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

// evaluate measures the validation set, records a row and saves.
func (t *trainer) evaluate() (*report.Eval, error) {
	row := &report.Eval{
		Job: t.job, Step: t.step, Epoch: report.Number(float64(t.step) / float64(t.perPass)), Split: report.Validation,
		TrainLoss:       report.Number(t.state.LossSum / float64(max(1, t.state.LossSteps))),
		LearningRate:    report.Number(t.scalars()[scalarRate]),
		ImagesPerSecond: report.Number(t.imagesPerSecond()),
	}
	var err error
	if row.Scalars, err = t.model.scalars(); err != nil {
		return nil, err
	}
	if t.val.set != nil {
		if row.Metrics, err = t.averaged(t.val); err != nil {
			return nil, err
		}
	}
	t.state.LossSum, t.state.LossSteps = 0, 0
	if t.Dir == "" {
		return row, nil
	}
	if err := report.Append(filepath.Join(t.Dir, RowsFile), row); err != nil {
		return nil, err
	}
	if t.val.set != nil && float64(row.Top1) > t.state.Best {
		t.state.Best = float64(row.Top1)
		if err := t.save(bestDir); err != nil {
			return nil, err
		}
	}
	return row, t.save(lastDir)
}

// before records what a pretrained model can do before its first step. A run killed since records it again, which
// readers count once.
func (t *trainer) before() error {
	if t.step > 0 || t.source == nil || t.val.set == nil || t.Dir == "" {
		return nil
	}
	row := report.Eval{Job: t.job, Split: report.Validation, TrainLoss: report.Number(math.NaN()),
		LearningRate: report.Number(t.scalars()[scalarRate])}
	var err error
	if row.Metrics, err = t.model.evaluate(t.val); err != nil {
		return err
	}
	if row.Scalars, err = t.model.scalars(); err != nil {
		return err
	}
	return report.Append(filepath.Join(t.Dir, RowsFile), row)
}

// averaged evaluates the averaged weights if the recipe keeps them, else the weights.
func (t *trainer) averaged(p pixels) (report.Metrics, error) {
	if t.Recipe.EMA == 0 {
		return t.model.evaluate(p)
	}
	if err := t.model.swapAverage(); err != nil {
		return report.Metrics{}, err
	}
	metrics, err := t.model.evaluate(p)
	return metrics, errors.Join(err, t.model.swapAverage())
}

// startAverage copies the weights into their averages.
func (t *trainer) startAverage() error {
	for v := range t.model.store.IterVariables() {
		average := t.model.store.GetVariable(averageRoot + v.Path())
		if average == nil {
			continue
		}
		weights, err := v.Value()
		if err != nil {
			return err
		}
		clone, err := weights.LocalClone()
		if err != nil {
			return err
		}
		if err := average.SetValue(clone); err != nil {
			return err
		}
	}
	return nil
}

// finish measures the test set and records the run.
func (t *trainer) finish() (row report.Result, err error) {
	r := t.Recipe
	settings, err := json.Marshal(struct {
		Recipe
		From *Source `json:"from,omitempty"`
	}{r, t.source})
	if err != nil {
		return row, err
	}
	seconds := t.state.Seconds + time.Since(t.started).Seconds()
	row = report.Result{
		Job: t.job, Backend: t.Backend.String(), Parameters: t.model.parameters(), Steps: t.steps,
		ImageSize:   fmt.Sprintf("%dx%d", r.Model.ImageRows, r.Model.ImageCols),
		Epochs:      report.Number(float64(t.steps) / float64(t.perPass)),
		WallSeconds: report.Number(seconds), Settings: settings,
		ImagesPerSecond: report.Number(t.imagesPerSecond()),
	}
	if row.Scalars, err = t.model.scalars(); err != nil {
		return row, err
	}
	if r.EMA > 0 {
		if err := t.model.swapAverage(); err != nil {
			return row, err
		}
	}
	if t.val.set != nil {
		if row.Validation, err = t.model.evaluate(t.val); err != nil {
			return row, err
		}
	}
	if t.Test != nil {
		if row.Test, err = t.model.Evaluate(t.Test); err != nil {
			return row, err
		}
	}
	row.Stamp(time.Now())
	if t.Dir == "" {
		return row, nil
	}
	if err := report.Append(filepath.Join(t.Dir, RowsFile), row); err != nil {
		return row, err
	}
	return row, t.draw()
}

// draw leaves the curves of the run as a picture.
func (t *trainer) draw() error {
	rows, err := report.ReadFiles(filepath.Join(t.Dir, RowsFile))
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%s on %s, seed %d", t.job.Recipe, t.job.Dataset, t.Seed)
	return report.Picture(filepath.Join(t.Dir, "curves.png"), func(w io.Writer) error {
		return report.Curves(w, title, rows.Evals)
	})
}

// close frees what the run holds on the device; the model stays.
func (t *trainer) close() {
	for _, p := range []pixels{t.train, t.val} {
		if p.resident != nil {
			_ = p.resident.FinalizeAll()
		}
	}
	t.apply.Finalize()
	if t.collect != nil {
		t.collect.Finalize()
	}
}
