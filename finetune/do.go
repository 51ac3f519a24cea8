// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
	"github.com/wepe-go/wepe/report"
)

// Do trains, or resumes from the last checkpoint in the run's directory, and returns the model and its row, both for
// the weights that Run.Weights selects. When it returns engine.ErrInterrupted, the state is saved.
func (run Run) Do(ctx context.Context) (m *Model, row report.Result, err error) {
	if run, err = run.prepared(); err != nil {
		return nil, row, err
	}
	c, err := newClassification(run)
	if err != nil {
		return nil, row, err
	}
	defer c.close()
	if err := c.Trainer.Train(ctx); err != nil {
		c.model.Finalize()
		return nil, row, err
	}
	return c.model, c.row, nil
}

// prepared sets defaults and refuses invalid runs, before anything is written to disk.
func (run Run) prepared() (Run, error) {
	run.Fraction = cmp.Or(run.Fraction, 1)
	if run.Group == nil {
		run.Group = parallel.Alone{}
	}
	if run.Logger == nil || run.Group.Rank() > 0 {
		run.Logger = slog.New(slog.DiscardHandler)
	}
	if run.Group.Rank() > 0 {
		run.Progress = nil
	}
	for _, set := range []data.Dataset{run.Train, run.Validation, run.Test} {
		if set == nil {
			continue
		}
		if err := data.Check(context.Background(), set, false); err != nil {
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
		return run, fmt.Errorf("finetune: recipe %s has no model: name a pretrained one", recipe.Name)
	} else if recipe.LoRA > 0 {
		return run, fmt.Errorf("finetune: lora is %d, but the model is not pretrained: name a pretrained one", recipe.LoRA)
	}
	if recipe, err = recipe.share(run.Group); err != nil {
		return run, err
	}
	run.Recipe, err = recipe.fit(run.Train.Describe())
	run.Label = cmp.Or(run.Label, run.Recipe.Model.Position)
	return run, err
}

// findSource opens the source of the run, nil for a run from scratch. A resumed run has its source in the checkpoint:
// the file may be missing, but not another one unless the run is known to be the checkpoint's.
func (run Run) findSource() (*initialModel, error) {
	if run.From == "" {
		return nil, nil
	}
	begun := run.begunFrom()
	if begun != nil && run.Extend {
		return begun, nil
	}
	source, err := openSource(run.From, run.Import, run.Train.Describe().Classes) // nil if err is not
	if begun != nil && (source == nil || source.SHA256 == begun.SHA256) {
		return begun, nil
	}
	return source, err
}

// begunFrom returns the source in the checkpoint that the run continues from, nil if there is none.
func (run Run) begunFrom() *initialModel {
	if run.Dir == "" {
		return nil
	}
	last, _, err := checkpoints.Find(run.Dir, checkpoints.Resume)
	if err != nil || last == nil {
		return nil // resume returns the error
	}
	begun, err := stateOf(last)
	if err != nil {
		return nil
	}
	return begun.From
}
