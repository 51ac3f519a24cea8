// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/wepe-go/wepe/cmd/wepe/internal/cli"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/report"
)

// splitTrain is the name of the training images in --split.
const splitTrain = "train"

// asTrained returns the training and the validation images that a run of this dataset had: of a fraction drawn by
// fractionSeed, or with --resample-images by the run's seed. The fingerprint of the training images in the run's
// checkpoint decides. Another model's validation images are split off the whole dataset, which is said.
func (d *Dataset) asTrained(s Splits, m *finetune.Model) (Splits, error) {
	fraction, seed := fractionOf(m)
	whole := s
	var err error
	if s.Validation == nil {
		if whole.Train, whole.Validation, err = m.Recipe.Split(s.Train); err != nil {
			return s, err
		}
	}
	if m.Opened.Data != "" {
		for _, drawn := range []int64{fractionSeed, seed} {
			part, err := data.Fraction(s.Train, fraction, drawn)
			if err != nil {
				return s, err
			}
			had := Splits{Train: part, Validation: s.Validation, Test: s.Test}
			if s.Validation != nil && data.Fingerprint(part) == m.Opened.Data {
				return had, nil
			}
			train, validation, err := m.Recipe.Split(part)
			if err == nil && data.Fingerprint(train) == m.Opened.Data {
				had.Train, had.Validation = train, cmp.Or(s.Validation, validation)
				return had, nil
			}
		}
	}
	switch own := m.Opened.Format == "checkpoint"; {
	case fraction < 1:
		return s, fmt.Errorf("%s was trained on %g of its images, which are not found in %s: give the --data and --stream "+
			"of its training and no other --size, or use --split test", m.Opened.Path, fraction, d.Spec)
	case s.Validation == nil && (!own || m.Opened.Data != ""):
		cli.Field("split", "the validation images are split off the training images now: the model may have been trained on "+
			"them, unless only --stream is not that of its training")
	}
	return whole, nil
}

// fractionOf returns the fraction of its dataset that a run was trained on, by its rows, and its seed.
func fractionOf(m *finetune.Model) (fraction float64, seed int64) {
	if m.Opened.Format != "checkpoint" {
		return 1, 0
	}
	dir := filepath.Dir(filepath.Dir(m.Opened.Path)) // of RUN/best/step-00000120
	rows, err := report.ReadFiles(filepath.Join(dir, engine.RowsFile))
	if err != nil {
		return 1, 0
	}
	for _, r := range rows.Evals {
		fraction, seed = r.Fraction, r.Seed
	}
	for _, r := range rows.Results {
		fraction, seed = r.Fraction, r.Seed
	}
	return cmp.Or(fraction, 1), seed
}
