// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// Export writes the model to a new directory for other software, see [checkpoints.Export]. Labels, scores and
// preprocessing are the model's unless the options set them.
//
//	trained, err := finetune.Open(backend, "runs/first")
//	report, err := trained.Export("my-vit", checkpoints.ExportOptions{Format: "hf"})
func (m *Model) Export(dir string, o checkpoints.ExportOptions) (report []string, err error) {
	if err := m.Recipe.plainViT("can be folded and exported"); err != nil {
		return nil, err
	}
	if o.Labels == nil {
		o.Labels = m.Classes
	}
	o.Scores = cmp.Or(o.Scores, m.Scores)
	o.Headless = o.Headless || m.Headless
	if o.Preprocess == nil {
		var line string
		if o.Preprocess, line = m.declared(); line != "" {
			defer func() { report = append(report, line) }()
		}
	}
	return checkpoints.Export(dir, m.backend, m.store.Scope("/"+modelScope), m.Recipe.Model, o)
}

// declared returns the preprocessing of evaluation, at the model's size; nil if there is none or it is unknown. line
// gives the difference or the reason.
func (m *Model) declared() (s *preprocess.Settings, line string) {
	c, a := m.Recipe.Model, m.evalAugment()
	if c.Channels != len(a.Mean) {
		return nil, ""
	}
	p, err := m.Preprocessing()
	height, width, varies := p.OutputSize()
	if err == nil && varies == nil && p.Resize != preprocess.ResizePatches {
		p, err = p.For(c.ImageRows, c.ImageCols)
	}
	if err != nil {
		return nil, fmt.Sprintf("preprocessing: not declared: %v", err)
	}
	p.Mean, p.Std, p.Rescale = a.Mean, a.Std, 0
	if varies == nil && m.Recipe.Aspect == "" && (height != c.ImageRows || width != c.ImageCols) {
		line = fmt.Sprintf("preprocessing: images of %d×%d in place of %d×%d, which the network resizes: predictions differ",
			c.ImageRows, c.ImageCols, height, width)
	}
	return &p, line
}
