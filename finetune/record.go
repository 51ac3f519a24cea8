// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
)

// before records what a pretrained model can do before its first step. A run killed since records it again, which
// readers count once.
func (t *trainer) before() error {
	if t.step > 0 || t.source == nil || t.held.set == nil || t.Dir == "" {
		return nil
	}
	row, err := t.look()
	if err != nil {
		return err
	}
	return t.record(row)
}

// evaluate measures the held-out images, records that and saves.
func (t *trainer) evaluate() (report.Eval, error) {
	row, err := t.look()
	if err != nil {
		return row, err
	}
	t.state.LossSum, t.state.LossSteps = 0, 0
	if err := t.record(row); err != nil {
		return row, err
	}
	if t.held.set != nil && float64(row.Top1) > t.state.Best {
		t.state.Best = float64(row.Top1)
		if err := t.save(bestDir); err != nil {
			return row, err
		}
	}
	return row, t.save(lastDir)
}

// owed makes the evaluation that a run stopped in: one that was made leaves no losses.
func (t *trainer) owed() error {
	if t.step == 0 || t.state.LossSteps == 0 || t.step%t.interval != 0 && t.step != t.steps {
		return nil
	}
	_, err := t.evaluate()
	return err
}

// look is the row of an evaluation. Its training loss is NaN before the first step.
func (t *trainer) look() (row report.Eval, err error) {
	row = report.Eval{
		Job: t.job, Step: t.step, Epoch: report.Number(float64(t.step) / float64(t.perPass)), Split: report.Validation,
		TrainLoss:       report.Number(t.state.LossSum / float64(t.state.LossSteps)),
		LearningRate:    report.Number(t.scalars()[scalarRate]),
		ImagesPerSecond: report.Number(t.imagesPerSecond()),
	}
	if t.held.set != nil {
		if row.Metrics, err = t.averaged(t.held); err != nil {
			return row, err
		}
	}
	row.Scalars, err = t.model.scalars() // after the first program, which draws what they are read from
	return row, err
}

// record adds a row to the run's record.
func (t *trainer) record(row report.Row) error {
	if !t.writes() {
		return nil
	}
	return report.Append(filepath.Join(t.Dir, RowsFile), row)
}

// averaged evaluates the averaged weights if there are any, else the weights.
func (t *trainer) averaged(p pixels) (report.Metrics, error) {
	if err := t.model.swapAverage(); err != nil {
		return report.Metrics{}, err
	}
	metrics, err := t.model.evaluate(p)
	return metrics, errors.Join(err, t.model.swapAverage())
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
	if err := t.model.swapAverage(); err != nil {
		return row, err
	}
	if t.held.set != nil {
		if row.Validation, err = t.model.evaluate(t.held); err != nil {
			return row, err
		}
	}
	if t.Test != nil {
		if row.Test, err = t.model.Evaluate(t.Test); err != nil {
			return row, err
		}
	}
	for _, set := range []*data.Set{t.images.set, t.held.set, t.Test} {
		if set != nil {
			row.Damaged += len(set.Damaged())
		}
	}
	row.Stamp(time.Now())
	if err := t.record(row); err != nil {
		return row, err
	}
	return row, t.draw()
}

// draw leaves the curves of the run as a picture.
func (t *trainer) draw() error {
	if !t.writes() {
		return nil
	}
	rows, err := report.ReadFiles(filepath.Join(t.Dir, RowsFile))
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%s on %s, seed %d", t.job.Recipe, t.job.Dataset, t.Seed)
	return report.Picture(filepath.Join(t.Dir, "curves.png"), func(w io.Writer) error {
		return report.Curves(w, title, rows.Evals)
	})
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
	if !t.writes() {
		return nil
	}
	if err := t.drain(); err != nil {
		return err
	}
	s := t.state
	s.Damaged = t.images.set.Damaged()
	s.Seconds += time.Since(t.started).Seconds()
	saver := checkpoints.Saver{Dir: filepath.Join(t.Dir, kind), Keep: 1, Omit: temporary}
	_, err := saver.Save(t.model.store, int64(t.step), s)
	t.saved = time.Now()
	return err
}
