// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
)

// Class is one predicted class of an image.
type Class struct {
	Name        string  `json:"label"`
	Index       int     `json:"class"`       // its number, from 0
	Probability float64 `json:"probability"` // or another score, see Model.Activation
}

// Prediction is the JSON of an image's labels, in every program.
type Prediction struct {
	Name   string  `json:"name"`             // of its file
	Error  string  `json:"error,omitempty"`  // why it has no labels
	Labels []Class `json:"labels,omitempty"` // the most probable first
}

// Predict returns the top classes of image files, the most likely first; data.Decode lists the formats. Images are
// resized as in Preprocess and normalized as in the recipe. Reading on all cores overlaps with the network, in batches
// of EvalBatch. An error of type [ReadErrors] lists missing or damaged files; the classes of the others are returned
// with it. For decoded images use PreprocessImage and Inference.
func (m *Model) Predict(files []string, top int) ([][]Class, error) {
	p := ofFiles(files)
	if err := m.sameClasses(&data.Info{Name: "of the classes' names", Classes: m.Classes}); err != nil {
		return nil, err
	}
	return collect(m, p, m.eval, func(i int, logits []float32) ([]Class, error) {
		if err := finite(logits); err != nil {
			return nil, fmt.Errorf("finetune: %s: %w", p.name(i), err)
		}
		return m.TopK(logits, top), nil
	})
}

// TopK returns the classes of the largest logits of an image, at most top.
func (m *Model) TopK(logits []float32, top int) []Class {
	classes := make([]Class, len(logits))
	for i, p := range m.probabilities(logits) {
		classes[i] = Class{Name: m.Classes[i], Index: i, Probability: p}
	}
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return classes[:max(0, min(top, len(classes)))]
}

// PreprocessImage brings an image to the model's size, see Preprocess. If the files of a foreign model specify no fixed
// size, the image is resized to the model's.
func (m *Model) PreprocessImage(img *data.Image) (*data.Image, error) {
	c := m.Recipe.Model
	if c.Channels != 3 {
		return nil, fmt.Errorf("the model takes %d channels, images have 3", c.Channels)
	}
	if img.Height < 1 || img.Width < 1 {
		return nil, errors.New("the image has no pixels")
	}
	settings, err := m.Preprocessing()
	if err != nil {
		return nil, err
	}
	img, err = img.Preprocess(settings)
	if _, _, varies := settings.OutputSize(); err == nil && varies != nil {
		clipped := img.Clipped
		img = img.Resize(c.ImageRows, c.ImageCols, settings.Kernel())
		img.Clipped = clipped
	}
	return img, err
}

// Preprocessing returns Preprocess or its default, or why the model's files describe one that images cannot get here.
func (m *Model) Preprocessing() (preprocess.Settings, error) {
	if m.refused != nil || m.Preprocess != (preprocess.Settings{}) {
		return m.Preprocess, m.refused
	}
	return m.Recipe.Preprocessing([2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols})
}

// probabilities applies Model.Activation to the logits of an image.
func (m *Model) probabilities(logits []float32) []float64 {
	total, out := logSumExp(logits), make([]float64, len(logits))
	for i, logit := range logits {
		switch v := float64(logit); m.Activation {
		case "sigmoid":
			out[i] = 1 / (1 + math.Exp(-v))
		case "none":
			out[i] = v
		default:
			out[i] = math.Exp(v - total)
		}
	}
	return out
}

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
	o.Activation = cmp.Or(o.Activation, m.Activation)
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
