// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package finetune trains vision transformers: one engine from data to a trained, evaluated and recorded model.
//
//	recipe, err := finetune.Named("shapes")
//	train, test, err := data.Shapes(data.TaskWhere, 4000, 1000, 32, 0)
//	run := finetune.Run{Backend: backend, Recipe: recipe, Train: train, Test: test, Dir: "runs/first"}
//	model, row, err := run.Do(ctx)
//
// A Recipe is a literal that says everything about a training but data, seed and machine. The pixels go to the device
// once; each step sends a few hundred numbers (data.Plan, the learning rate) to one compiled program.
//
// # Resume
//
// The order of the data and every augmentation are pure functions of (seed, epoch, index), dropout's generator and the
// optimizer's moments are variables, and a checkpoint holds all of them. A run that was stopped goes on with the same
// command and ends with the same bits as one that never stopped (on the go backend; other backends do not promise
// bit-equal arithmetic).
//
// # What a run leaves in its directory
//
//	rows.jsonl    one row per evaluation, one when the run ends (package report)
//	curves.png    loss and accuracy
//	last/         the newest checkpoint, all that a resume needs
//	best/         the checkpoint of the best validation accuracy
package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/finetune/report"
)

// RowsFile is the record in a run's directory.
const RowsFile = "rows.jsonl"

const (
	lastDir = "last"
	bestDir = "best"
)

// ErrInterrupted says that the context ended; what was done is saved, and the same run goes on from there.
var ErrInterrupted = errors.New("interrupted")

// Run is one training of one recipe on one data set with one seed.
type Run struct {
	Backend compute.Backend
	Recipe  Recipe
	Seed    int64

	Train    *data.Set // the recipe's ValidationPart of it is held out
	Test     *data.Set // measured once, after the last step; nil for none
	Fraction float64   // of the data set that Train is, for the record; 0 means 1

	Dir       string         // where the run leaves its files; empty for nowhere
	SaveEvery time.Duration  // between checkpoints beside those at evaluations, default 5 minutes
	Progress  func(Progress) // called after every step, nil for silence
	Log       func(string)   // one line for people, nil for silence
}

// Progress is how far a run has come.
type Progress struct {
	Step, Steps     int
	Loss            float64 // of the last step that was read back
	ImagesPerSecond float64 // of the optimizer steps so far, see report.Run.ImagesPerSecond
	Left            time.Duration
	Eval            *report.Eval // set when this step ended with an evaluation
}

// state is what a checkpoint says beside the variables.
type state struct {
	Recipe    Recipe   `json:"recipe"`
	Classes   []string `json:"classes"`
	Seed      int64    `json:"seed"`
	Data      string   `json:"data"` // fingerprint of the training images
	Best      float64  `json:"best"` // validation accuracy of the best checkpoint so far
	LossSum   float64  `json:"loss_sum"`
	LossSteps int      `json:"loss_steps"` // steps since the evaluation before
	Seconds   float64  `json:"seconds"`    // spent training and evaluating so far

	// The optimizer steps that were timed, and their time: all but the first after a start or resume, which compiles.
	TimedSteps   int     `json:"timed_steps"`
	TimedSeconds float64 `json:"timed_seconds"`
}

// trainer is a run under way.
type trainer struct {
	Run
	model          *Model
	collect, apply *model.Exec
	train, val     pixels
	job            report.Job
	steps, perPass int // in all, per epoch
	step           int
	state          state
	pending        []*tensors.Tensor // losses not read back yet, so that an accelerator need not wait for them
	lastLoss       float64
	started        time.Time
	startStep      int
	saved          time.Time
}

// Do trains, or goes on training from the run directory's last checkpoint, and returns the model with its final weights
// and the run's row. On ErrInterrupted the state is saved.
func (run Run) Do(ctx context.Context) (m *Model, row report.Run, err error) {
	if run, err = run.prepared(); err != nil {
		return nil, row, err
	}
	if ctx.Err() != nil {
		return nil, row, fmt.Errorf("%w before it began", ErrInterrupted)
	}
	if run.Dir != "" {
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
	defer t.close()
	if row, done := t.recorded(); done {
		return t.model, row, t.model.swapAverage() // as finish does; nothing happens without averages
	}
	for t.step < t.steps {
		if ctx.Err() != nil {
			if err := t.saveProgress(); err != nil {
				return nil, row, fmt.Errorf("interrupted at step %d of %d and not saved: %w", t.step, t.steps, err)
			}
			return nil, row, fmt.Errorf("%w at step %d of %d", ErrInterrupted, t.step, t.steps)
		}
		if err := t.advance(); err != nil {
			return nil, row, err
		}
	}
	row, err = t.finish()
	return t.model, row, err
}

// prepared fills in defaults and refuses what cannot be trained, before anything is on disk.
func (run Run) prepared() (Run, error) {
	setDefault(&run.SaveEvery, 5*time.Minute)
	setDefault(&run.Fraction, 1)
	if run.Log == nil {
		run.Log = func(string) {}
	}
	for _, set := range []*data.Set{run.Train, run.Test} {
		if set == nil {
			continue
		}
		if err := set.Validate(); err != nil {
			return run, err
		}
	}
	recipe, err := run.Recipe.fit(run.Train)
	run.Recipe = recipe
	return run, err
}

// begin prepares data, model and programs, and resumes if there is something to resume.
func (run Run) begin() (_ *trainer, err error) {
	recipe, train, val := run.Recipe, run.Train, (*data.Set)(nil)
	if recipe.ValidationPart > 0 {
		held := int(math.Round(recipe.ValidationPart * float64(train.Len())))
		// The split is the same for every seed: seeds are repetitions of one experiment.
		if train, val, err = run.Train.Split(held, 0); err != nil {
			return nil, err
		}
	}
	if train.Len() < recipe.BatchSize {
		return nil, fmt.Errorf("finetune: %d training images are fewer than one batch of %d: lower batch_size",
			train.Len(), recipe.BatchSize)
	}
	t := &trainer{
		Run: run, perPass: train.Len() / recipe.BatchSize, started: time.Now(), saved: time.Now(), lastLoss: math.NaN(),
		job: report.Job{Recipe: recipe.Name, Dataset: run.Train.Name, Fraction: run.Fraction,
			Encoding: recipe.Model.Position, Seed: run.Seed},
		state: state{Recipe: recipe, Classes: train.Classes, Seed: run.Seed, Data: train.Fingerprint(), Best: -1},
	}
	t.steps = t.perPass * recipe.Epochs
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

// resume takes over the newest whole checkpoint of the run directory, if there is one.
func (t *trainer) resume() error {
	if t.Dir == "" {
		return nil
	}
	checkpoint, skipped, err := checkpoints.Latest(filepath.Join(t.Dir, lastDir))
	if err != nil {
		return err
	}
	for _, s := range skipped {
		t.Log(s.String())
	}
	if checkpoint == nil {
		return nil
	}
	var s state
	if err := json.Unmarshal(checkpoint.Meta, &s); err != nil {
		return fmt.Errorf("finetune: %s: %w", checkpoint.Path, err)
	}
	if err := sameRun(s, t.state); err != nil {
		return fmt.Errorf("finetune: %s is of another run: %w: use another directory", checkpoint.Path, err)
	}
	if err := checkpoint.Load(t.model.store, nil); err != nil {
		return err
	}
	t.state, t.step, t.startStep = s, int(checkpoint.Step), int(checkpoint.Step)
	t.Log(fmt.Sprintf("resuming at step %d of %d", t.step, t.steps))
	return nil
}

// recorded returns the row of a run that had ended before.
func (t *trainer) recorded() (row report.Run, done bool) {
	if t.step < t.steps {
		return row, false
	}
	rows, err := report.ReadFiles(filepath.Join(t.Dir, RowsFile))
	if err != nil {
		return row, false // finish writes it again
	}
	for _, r := range rows.Runs {
		if r.Job == t.job && r.Steps == t.steps && r.Failed == "" {
			row, done = r, true
		}
	}
	return row, done
}

// sameRun says what differs between the run of a checkpoint and the one that is asked for.
func sameRun(old, now state) error {
	a, err := old.Recipe.settings()
	if err != nil {
		return err
	}
	b, err := now.Recipe.settings()
	if err != nil {
		return err
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range names {
		if a[name] != b[name] {
			return fmt.Errorf("its %s is %s, this one's %s", name, cmp.Or(a[name], "unset"), cmp.Or(b[name], "unset"))
		}
	}
	switch {
	case old.Seed != now.Seed:
		return fmt.Errorf("its seed is %d, this one's %d", old.Seed, now.Seed)
	case old.Data != now.Data:
		return errors.New("its training images differ")
	}
	return nil
}

// advance makes one optimizer step, and what is due after it.
func (t *trainer) advance() error {
	r, began := t.Recipe, time.Now()
	epoch, batch := t.step/t.perPass, t.step%t.perPass
	order := data.Order(t.Seed, epoch, t.train.set.Len())
	part := r.BatchSize / r.Accumulate
	scalars := t.scalars()
	for i := range r.Accumulate {
		at := batch*r.BatchSize + i*part
		plan := r.augmentation(epoch).Plan(t.train.set, t.Seed, epoch, batch*r.Accumulate+i, order[at:at+part])
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
	if t.step == 0 && r.EMA > 0 {
		// The average starts at the weights after the first step, not at zero.
		if err := t.startAverage(); err != nil {
			return err
		}
	}
	t.step++
	epochEnds := t.step%t.perPass == 0 && (t.step/t.perPass%r.EvalEpochs == 0 || t.step == t.steps)
	if len(t.pending) >= 10*r.Accumulate || epochEnds {
		if err := t.drain(); err != nil {
			return err
		}
	}
	if t.step > t.startStep+1 {
		t.state.TimedSteps++
		t.state.TimedSeconds += time.Since(began).Seconds()
	}
	progress := Progress{Step: t.step, Steps: t.steps, Loss: t.lastLoss, ImagesPerSecond: t.imagesPerSecond()}
	if epochEnds {
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
	warmup := int(math.Round(r.WarmupEpochs * float64(t.perPass)))
	out := make([]float32, numScalars)
	copy(out, r.Optimizer.scalars(learningRate(r.LearningRate, t.step, warmup, t.steps), t.step))
	// A young average would be ruled by its start: it looks back as far as there is a past, up to 1/(1-decay) steps.
	out[scalarEMA] = float32(min(r.EMA, float64(1+t.step)/float64(10+t.step)))
	return out
}

// drain reads the losses back and stops a run that diverged.
func (t *trainer) drain() error {
	for i, p := range t.pending {
		loss, ok := p.Value().(float32)
		if !ok || math.IsNaN(float64(loss)) || math.IsInf(float64(loss), 0) {
			return fmt.Errorf("finetune: the loss became %v about step %d: training diverged; lower learning_rate or "+
				"set optimizer.clip_norm", loss, t.step-(len(t.pending)-i)/t.Recipe.Accumulate+1)
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

// saveProgress saves what was done since the start or resume, if anything was.
func (t *trainer) saveProgress() error {
	if t.step == t.startStep {
		return nil
	}
	return t.save(lastDir)
}

// save writes a checkpoint of the state between two steps.
func (t *trainer) save(kind string) error {
	if t.Dir == "" {
		return nil
	}
	if err := t.drain(); err != nil {
		return err
	}
	s := t.state
	s.Seconds += time.Since(t.started).Seconds()
	saver := checkpoints.Saver{Dir: filepath.Join(t.Dir, kind), Keep: 1, Omit: temporary}
	_, err := saver.Save(t.model.store, int64(t.step), s)
	t.saved = time.Now()
	return err
}

// finish measures the test set and records the run.
func (t *trainer) finish() (row report.Run, err error) {
	r := t.Recipe
	settings, err := json.Marshal(r)
	if err != nil {
		return row, err
	}
	seconds := t.state.Seconds + time.Since(t.started).Seconds()
	row = report.Run{
		Job: t.job, Backend: t.Backend.String(), Parameters: r.Model.Parameters(), Steps: t.steps,
		ImageSize: fmt.Sprintf("%dx%d", r.Model.ImageRows, r.Model.ImageCols), Epochs: report.Number(r.Epochs),
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
