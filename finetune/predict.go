// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"math"
	"os"
	"slices"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/finetune/data"
)

// Class is one answer of Predict.
type Class struct {
	Name        string
	Probability float64
}

// Predict names what is in an image file, the most likely first; data.Decode lists the formats. The picture is resized
// to the model's size, whatever its shape, unless Preprocess or Recipe.Aspect says otherwise; the recipe normalises it.
func (m *Model) Predict(file string, top int) ([]Class, error) {
	picture, err := decode(file)
	if err != nil {
		return nil, err
	}
	return m.classify(file, picture, top)
}

// PredictImage is Predict for a decoded picture, whose transparency is dropped.
func (m *Model) PredictImage(img image.Image, top int) ([]Class, error) {
	return m.classify("picture", data.FromImage(img), top)
}

// classify names what is in a picture.
func (m *Model) classify(name string, picture *data.Picture, top int) ([]Class, error) {
	picture, err := m.Fit(picture)
	if err != nil {
		return nil, fmt.Errorf("finetune: %s: %w", name, err)
	}
	logits, err := m.logitsOf(m.setOf(name, picture))
	if err != nil {
		return nil, err
	}
	if err := finite(logits[0]); err != nil {
		return nil, fmt.Errorf("finetune: %s: %w", name, err)
	}
	total := logSumExp(logits[0])
	classes := make([]Class, len(logits[0]))
	for i, v := range logits[0] {
		classes[i] = Class{Name: m.Classes[i], Probability: math.Exp(float64(v) - total)}
	}
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return classes[:min(top, len(classes))], nil
}

// decode reads a picture file.
func decode(file string) (*data.Picture, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("finetune: %w", err)
	case !info.Mode().IsRegular(): // opening a pipe would wait for its other end
		return nil, fmt.Errorf("finetune: %s is no regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("finetune: %w", err)
	}
	defer f.Close()
	picture, err := data.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("finetune: %s: %w", file, err)
	}
	return picture, nil
}

// Fit brings a picture to the size that the model sees, as Preprocess says. Where that leaves a size of each picture's
// own, it is resized to the model's.
func (m *Model) Fit(picture *data.Picture) (*data.Picture, error) {
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

// setOf is a set of pictures of one size.
func (m *Model) setOf(name string, pictures ...*data.Picture) *data.Set {
	set := &data.Set{Name: name, Labels: make([]int32, len(pictures)), Height: pictures[0].Height,
		Width: pictures[0].Width, Channels: 3, Classes: m.Classes}
	for _, p := range pictures {
		set.Pixels = append(set.Pixels, p.Pixels...)
		if p.Grid != [2]int{} {
			set.Grids = append(set.Grids, p.Grid)
		}
		set.Float = append(set.Float, p.Float...)
	}
	return set
}
