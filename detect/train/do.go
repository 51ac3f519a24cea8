// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	"context"
	"fmt"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/report"
)

// Do trains, or resumes from the run directory's last checkpoint, and returns the detector and a row for each of the
// tests. When it returns engine.ErrInterrupted, the state is saved.
func (run Run) Do(ctx context.Context) (m *Model, rows []report.Result, err error) {
	if run, err = run.prepared(); err != nil {
		return nil, nil, err
	}
	d, err := newDetection(run)
	if err != nil {
		return nil, nil, err
	}
	if err := d.trainer.Train(ctx); err != nil {
		d.model.Finalize()
		return nil, nil, err
	}
	return d.model, d.rows, nil
}

// prepared sets defaults and refuses invalid runs, before anything is written to disk.
func (run Run) prepared() (Run, error) {
	part := run.Recipe.ValidationPart
	if folder, ok := run.Train.(*scenes.Folder); ok && run.Validation == nil && part > 0 && part < 1 { // others: validate
		training, validation := folder.Split(part)
		run.Train, run.Validation = training, &Test{Scenes: validation, Annotations: validation.Dataset}
	}
	if run.Train == nil || run.Train.Len() < max(1, run.Recipe.BatchSize) {
		return run, fmt.Errorf("detection: fewer scenes to train on than one batch of %d: lower batch_size",
			run.Recipe.BatchSize)
	}
	tests := run.Tests
	if run.Validation != nil {
		tests = append([]Test{*run.Validation}, tests...)
	}
	for _, test := range tests {
		if _, err := identifiers(run.Train.Categories(), test.Annotations); err != nil {
			return run, err
		}
	}
	c := &run.Recipe.Detector
	c.Backbone.Classes = len(run.Train.Categories())
	if run.From != "" {
		var err error
		if run.source, err = checkpoints.Import(run.From, // only the backbone is loaded
			checkpoints.ImportOptions{HeadOptional: true, Hints: run.Import}); err != nil {
			return run, err
		}
		c.Backbone.Epsilon = cmp.Or(c.Backbone.Epsilon, run.source.Config.Epsilon)
		if s := run.source; c.Std == [3]float64{} && len(s.Mean) == 3 && len(s.Std) == 3 {
			c.Mean, c.Std = [3]float64(s.Mean), [3]float64(s.Std)
		}
	}
	run.Recipe = run.Recipe.withDefaults()
	run.Label = cmp.Or(run.Label, run.Recipe.Detector.Backbone.Position)
	if err := run.Recipe.validate(); err != nil {
		return run, err
	}
	for _, test := range tests {
		if _, err := compare(test, nil, !run.Recipe.Detector.ROI.NoMasks); err != nil { // what the end would refuse
			return run, fmt.Errorf("detection: the objects of the test images: %w", err)
		}
		if err := run.Recipe.Detector.CheckCanvas(test.canvas(run.Recipe.Detector)); err != nil {
			return run, fmt.Errorf("detection: the test images: %w", err)
		}
	}
	return run, nil
}
