// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/wepe-go/wepe/checkpoints"
)

// Export writes the model to a new directory for other software, see [checkpoints.Export]. Labels and preprocessing are
// the model's own unless the options give others.
//
//	trained, err := finetune.Open(backend, "runs/first")
//	report, err := trained.Export("my-vit", checkpoints.ExportOptions{Format: checkpoints.FormatHF})
func (m *Model) Export(dir string, o checkpoints.ExportOptions) (report []string, err error) {
	if o.Labels == nil {
		o.Labels = m.Classes
	}
	if o.Preprocess == nil {
		o.Preprocess = m.preprocess()
	}
	return checkpoints.Export(dir, m.backend, m.store.Scope("/"+modelScope), m.Recipe.Model, o)
}

// preprocess is what evaluation does to pictures: see evalAugment.
func (m *Model) preprocess() *checkpoints.Preprocess {
	a := m.evalAugment()
	p := &checkpoints.Preprocess{Resample: "bilinear"}
	for c := range m.Recipe.Model.Channels {
		mean, std := 0.0, 1.0
		if c < len(a.Mean) {
			mean, std = a.Mean[c], a.Std[c]
		}
		if std == 0 { // Augment's word for 1
			std = 1
		}
		p.Mean, p.Std = append(p.Mean, mean), append(p.Std, std)
	}
	return p
}
