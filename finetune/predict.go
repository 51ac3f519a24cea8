// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"cmp"
	"fmt"
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
// to the model's size, whatever its shape, unless Preprocess says otherwise; the recipe normalises it.
func (m *Model) Predict(file string, top int) ([]Class, error) {
	set, err := m.read(file)
	if err != nil {
		return nil, err
	}
	logits, err := m.logitsOf(set)
	if err != nil {
		return nil, err
	}
	if err := finite(logits[0]); err != nil {
		return nil, fmt.Errorf("finetune: %s: %w", file, err)
	}
	total := logSumExp(logits[0])
	classes := make([]Class, len(logits[0]))
	for i, v := range logits[0] {
		classes[i] = Class{Name: m.Classes[i], Probability: math.Exp(float64(v) - total)}
	}
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Probability, a.Probability) })
	return classes[:min(top, len(classes))], nil
}

// read brings one picture file to the model's size, as a set of its own.
func (m *Model) read(file string) (*data.Set, error) {
	c := m.Recipe.Model
	if c.Channels != 3 {
		return nil, fmt.Errorf("finetune: the model takes %d channels, image files give 3", c.Channels)
	}
	settings := m.Preprocess
	if settings == (preprocess.Settings{}) {
		settings = preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{c.ImageRows, c.ImageCols}}
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("finetune: %w", err)
	}
	defer f.Close()
	picture, err := data.Image(f, settings)
	if err != nil {
		return nil, fmt.Errorf("finetune: %s: %w", file, err)
	}
	return &data.Set{Name: file, Labels: []int32{0}, Height: picture.Height, Width: picture.Width, Channels: 3,
		Classes: m.Classes, Pixels: picture.Pixels}, nil
}
