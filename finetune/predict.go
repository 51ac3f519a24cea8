// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
)

// Class is one answer of Predict.
type Class struct {
	Name        string
	Probability float64
}

// Predict names what is in an image file, the most likely first; data.Decode lists the formats. The picture is resized
// to the model's size, whatever its shape, unless Preprocess or Recipe.Aspect says otherwise; the recipe normalises it.
func (m *Model) Predict(file string, top int) ([]Class, error) {
	return one(m.predict(ofFiles([]string{file}), top))
}

// PredictFiles is Predict for many files, in their order. They are read on all cores while the network sees those
// before them, in batches of EvalBatch. An error of type [Unread] names those that are missing or
// damaged; the classes of the others come with it.
func (m *Model) PredictFiles(files []string, top int) ([][]Class, error) {
	return m.predict(ofFiles(files), top)
}

// PredictImage is Predict for a decoded picture, whose transparency is dropped.
func (m *Model) PredictImage(img image.Image, top int) ([]Class, error) {
	return one(m.predict(ofImages([]image.Image{img}), top))
}

// one is the prediction of a single picture.
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
	if err := m.knows(&data.Info{Name: "of the classes' names", Classes: m.Classes}); err != nil {
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
	total := logSumExp(logits)
	classes := make([]Class, len(logits))
	for i, v := range logits {
		classes[i] = Class{Name: m.Classes[i], Probability: math.Exp(float64(v) - total)}
	}
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return classes[:min(top, len(classes))]
}

// Fit brings a picture to the size that the model sees, as Preprocess says. Where that leaves a size of each picture's
// own, it is resized to the model's.
func (m *Model) Fit(picture *data.Image) (*data.Image, error) {
	c, settings := m.Recipe.Model, m.Preprocess
	if c.Channels != 3 {
		return nil, fmt.Errorf("the model takes %d channels, pictures give 3", c.Channels)
	}
	if picture.Height < 1 || picture.Width < 1 {
		return nil, errors.New("a picture without pixels")
	}
	size := [2]int{c.ImageRows, c.ImageCols}
	switch {
	case settings != preprocess.Settings{}:
	case m.Recipe.Aspect != "":
		var err error
		if settings, err = m.Recipe.Pictures(size); err != nil {
			return nil, err
		}
	default:
		settings = preprocess.Settings{Fit: preprocess.FitExact, Size: size}
	}
	picture, err := picture.Preprocess(settings)
	if _, _, varies := settings.OutputSize(); err == nil && varies != nil {
		picture = picture.Resize(c.ImageRows, c.ImageCols, settings.Kernel())
	}
	return picture, err
}
