// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/report"
)

// multiResolutionFile contains the results of a training run's model at other sizes, in the training's directory.
const multiResolutionFile = "elsewhere.jsonl"

// multiResolution evaluates a trained model at the sizes of EvalSizes, unless the last row of a size is of the same
// weights: those of the training run's row, on another grid without training. Each encoding has its own rule for other
// grids.
func (s *Study) multiResolution(ctx context.Context, u Unit, row report.Result, test data.Dataset) error {
	switch {
	case len(s.EvalSizes) == 0:
		return nil
	case test == nil:
		return errors.New("other sizes want test images")
	}
	path := filepath.Join(u.Dir, multiResolutionFile)
	rows, err := report.ReadFiles(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var trained finetune.Recipe // with the patches of a pretrained model
	if err := json.Unmarshal(row.Settings, &trained); err != nil {
		return fmt.Errorf("%s: the recipe in its row: %w", u.Dir, err)
	}
	sizes, err := SizesOf(s.EvalSizes, trained, test.Describe())
	if err != nil {
		return err
	}
	for _, size := range sizes {
		row.ImageSize = sizeName(size)
		row.Recipe = u.Recipe.Name + " at " + row.ImageSize
		same := func(r report.Result) bool {
			return r.Job == row.Job && r.Weights == row.Weights && (r.TestData == row.TestData || r.TestData == "")
		}
		if slices.ContainsFunc(latest(rows.Results), same) {
			continue
		}
		began := time.Now()
		model, err := finetune.OpenOptions{Size: size, Weights: row.Weights.Name}.Open(s.Backend, u.Dir)
		if err != nil {
			return fmt.Errorf("at %s: %w", row.ImageSize, err)
		}
		images := test
		if u.Task.TestAt != nil {
			var own data.Dataset
			if own, err = u.Task.TestAt(ctx, model); own != nil {
				images = own
			}
		}
		if err == nil {
			row.Test, err = model.Evaluate(images)
		}
		model.Finalize()
		if err != nil {
			return fmt.Errorf("at %s: %w", row.ImageSize, err)
		}
		row.Validation, row.Scalars, row.WallSeconds = report.Metrics{}, nil, report.JSONFloat(time.Since(began).Seconds())
		row.Stamp(time.Now())
		if err := report.Append(path, row); err != nil {
			return err
		}
	}
	return nil
}

// latest drops the rows that a later one of the same job replaces.
func latest(rows []report.Result) (kept []report.Result) {
	for _, r := range rows {
		kept = append(slices.DeleteFunc(kept, func(k report.Result) bool { return k.Job == r.Job }), r)
	}
	return kept
}
