// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// Export writes the model to a new directory for other software, see [checkpoints.Export]. Labels and preprocessing are
// the model's own unless the options give others.
//
//	trained, err := finetune.Open(backend, "runs/first")
//	report, err := trained.Export("my-vit", checkpoints.ExportOptions{Format: checkpoints.FormatHF})
func (m *Model) Export(dir string, o checkpoints.ExportOptions) (report []string, err error) {
	if err := m.Recipe.plainViT("can be folded and exported"); err != nil {
		return nil, err
	}
	if o.Labels == nil {
		o.Labels = m.Classes
	}
	if o.Preprocess == nil {
		o.Preprocess = m.preprocess()
	}
	return checkpoints.Export(dir, m.backend, m.store.Scope("/"+modelScope), m.Recipe.Model, o)
}

// preprocess is what evaluation does to pictures, see evalAugment; nil where they are no pictures.
func (m *Model) preprocess() *preprocess.Settings {
	a := m.evalAugment()
	a.Size = [2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols}
	if m.Recipe.Model.Channels != len(a.Mean) {
		return nil
	}
	return &preprocess.Settings{Fit: preprocess.FitExact, Size: a.Size, Resample: preprocess.Bilinear, Mean: a.Mean,
		Std: a.Std}
}
