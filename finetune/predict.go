// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
)

// Class is one answer of Predict.
type Class struct {
	Name        string
	Probability float64 // or what else Model.Scores makes of its logit
}

// Predict names what is in an image file, the most likely first; data.Decode lists the formats. The image is
// brought to size as Preprocess describes; the recipe normalizes it.
func (m *Model) Predict(file string, top int) ([]Class, error) {
	return one(m.predict(ofFiles([]string{file}), top))
}

// PredictFiles is Predict for many files, in their order. They are read on all cores while the network sees those
// before them, in batches of EvalBatch. An error of type [Unread] names those that are missing or
// damaged; the classes of the others come with it.
func (m *Model) PredictFiles(files []string, top int) ([][]Class, error) {
	return m.predict(ofFiles(files), top)
}

// PredictImage is Predict for a decoded image, whose transparency is dropped.
func (m *Model) PredictImage(img image.Image, top int) ([]Class, error) {
	return one(m.predict(ofImages([]image.Image{img}), top))
}

// one is the prediction of a single image.
func one(classes [][]Class, err error) ([]Class, error) {
	if unread := (Unread{}); errors.As(err, &unread) {
		return nil, unread[0]
	}
	if err != nil {
		return nil, err
	}
	return classes[0], nil
}

func (m *Model) predict(p readable, top int) ([][]Class, error) {
	if err := m.sameClasses(&data.Info{Name: "of the classes' names", Classes: m.Classes}); err != nil {
		return nil, err
	}
	return collect(m, p, m.eval, func(i int, logits []float32) ([]Class, error) {
		if err := finite(logits); err != nil {
			return nil, fmt.Errorf("finetune: %s: %w", p.name(i), err)
		}
		return m.likeliest(logits, top), nil
	})
}

// likeliest returns the classes of the largest logits.
func (m *Model) likeliest(logits []float32, top int) []Class {
	classes := make([]Class, len(logits))
	for i, p := range m.Probabilities(logits) {
		classes[i] = Class{Name: m.Classes[i], Probability: p}
	}
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return classes[:min(top, len(classes))]
}

// Fit brings an image to the size of those that the model was evaluated on, see Preprocess. Where the files of a
// foreign model leave a size of each image's own, it is resized to the model's.
func (m *Model) Fit(img *data.Image) (*data.Image, error) {
	c := m.Recipe.Model
	if c.Channels != 3 {
		return nil, fmt.Errorf("the model takes %d channels, images have 3", c.Channels)
	}
	if img.Height < 1 || img.Width < 1 {
		return nil, errors.New("an image without pixels")
	}
	settings, err := m.preprocessing()
	if err != nil {
		return nil, err
	}
	img, err = img.Preprocess(settings)
	if _, _, varies := settings.OutputSize(); err == nil && varies != nil {
		img = img.Resize(c.ImageRows, c.ImageCols, settings.Kernel())
	}
	return img, err
}

// preprocessing is Preprocess or what stands for it.
func (m *Model) preprocessing() (preprocess.Settings, error) {
	if m.refused != nil || m.Preprocess != (preprocess.Settings{}) {
		return m.Preprocess, m.refused
	}
	return m.Recipe.Preprocessing([2]int{m.Recipe.Model.ImageRows, m.Recipe.Model.ImageCols})
}

// Probabilities returns what Model.Scores makes of the logits of an image.
func (m *Model) Probabilities(logits []float32) []float64 {
	total, out := logSumExp(logits), make([]float64, len(logits))
	for i, logit := range logits {
		switch v := float64(logit); m.Scores {
		case checkpoints.ScoresSigmoid:
			out[i] = 1 / (1 + math.Exp(-v))
		case checkpoints.ScoresNone:
			out[i] = v
		default:
			out[i] = math.Exp(v - total)
		}
	}
	return out
}
