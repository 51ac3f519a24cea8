// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
)

// evaluate measures the scenes that are held out, records that and saves, the best so far apart.
func (t *trainer) evaluate() (row report.Eval, err error) {
	row = report.Eval{
		Job: t.job, Step: t.step, Epoch: report.Number(float64(t.step) / float64(t.perPass)), Split: report.Validation,
		TrainLoss:       report.Number(t.state.LossSum / float64(t.state.LossSteps)),
		LearningRate:    report.Number(t.Recipe.rate(t.step - 1)),
		ImagesPerSecond: report.Number(t.imagesPerSecond()),
	}
	if t.Held != nil {
		found, err := t.model.Evaluate(*t.Held)
		if err != nil {
			return row, err
		}
		row.Found = found.Numbers()
	}
	t.state.LossSum, t.state.LossSteps = 0, 0
	if err := t.record(row); err != nil {
		return row, err
	}
	if ap := float64(row.Boxes["AP"]); t.Held != nil && ap > t.state.Best {
		t.state.Best = ap
		if err := t.save(checkpoints.BestDir); err != nil {
			return row, err
		}
	}
	return row, t.save(checkpoints.LastDir)
}

// record adds a row to the run's record.
func (t *trainer) record(row report.Row) error {
	if t.Dir == "" {
		return nil
	}
	return report.Append(filepath.Join(t.Dir, finetune.RowsFile), row)
}

// test measures the tests that are not measured yet, and returns the rows of all. A row at another size than that of
// the training has the size in the name of its recipe.
func (t *trainer) test(ctx context.Context) (rows []report.Result, err error) {
	seconds := t.state.Seconds + time.Since(t.started).Seconds()
	var known report.Rows
	if t.Dir != "" {
		if known, err = report.ReadFiles(filepath.Join(t.Dir, finetune.RowsFile)); err != nil {
			return nil, err
		}
	}
	for _, test := range t.Tests {
		settings, err := json.Marshal(struct {
			Recipe
			From       string `json:"from,omitempty"`
			TestScenes int    `json:"test_scenes"`
		}{t.Recipe, t.state.From, test.Set.Len()})
		if err != nil {
			return rows, err
		}
		rowsOf, cols := test.canvas(t.Recipe.Detector)
		row := report.Result{
			Job: t.job, Backend: t.Backend.String(), Steps: t.Recipe.Steps, ImageSize: size(rowsOf, cols),
			Epochs:      report.Number(float64(t.Recipe.Steps) / float64(t.perPass)),
			WallSeconds: report.Number(seconds), Settings: settings,
			ImagesPerSecond: report.Number(t.imagesPerSecond()),
		}
		if b := t.Recipe.Detector.Backbone; row.ImageSize != size(b.ImageRows, b.ImageCols) {
			row.Recipe += " at " + row.ImageSize
		}
		if before := measured(known.Results, row); before != nil {
			rows = append(rows, *before)
			continue
		}
		if ctx.Err() != nil {
			return rows, fmt.Errorf("%w before it was tested at %s", finetune.ErrInterrupted, row.ImageSize)
		}
		found, err := t.model.Evaluate(test)
		if err != nil {
			return rows, err
		}
		row.Found, row.Parameters = found.Numbers(), t.model.parameters()
		if t.Dir != "" {
			path := filepath.Join(t.Dir, "results-"+row.ImageSize+".json")
			write := func(w io.Writer) error { return coco.WriteResults(w, found.Detections) }
			if err := report.Picture(path, write); err != nil {
				return rows, err
			}
		}
		row.Stamp(time.Now())
		if err := t.record(row); err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// measured is the row of an earlier test that row asks for.
func measured(known []report.Result, row report.Result) *report.Result {
	for i, r := range known {
		if r.Job == row.Job && r.Steps == row.Steps && string(r.Settings) == string(row.Settings) && r.Boxes != nil {
			return &known[i]
		}
	}
	return nil
}
