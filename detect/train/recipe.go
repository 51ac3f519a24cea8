// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package train

import (
	"cmp"
	_ "embed" // the comments of settings
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/detect/scenes"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit/position"
)

//go:embed recipe.go
var recipeCode string

var _ = setting.Describe(recipeCode)

// Recipe describes the training of a detector except the data, the seed and the machine. It is saved with every
// checkpoint and every row. WithDefaults sets zero fields.
type Recipe struct {
	Name string `json:"name"` // of the recipe, in rows and directories

	Detector detect.Config  `json:"detector"`         // its number of classes comes from the data
	Params   map[string]any `json:"params,omitempty"` // hyperparameters of the encoding: vit.Params

	Steps        int     `json:"steps"`         // optimizer steps
	BatchSize    int     `json:"batch_size"`    // images per optimizer step
	LearningRate float64 `json:"learning_rate"` // the highest, at the end of warm-up
	WarmupSteps  int     `json:"warmup_steps"`  // linear from 0; then one half cosine to 0 at the last step
	// Drops are steps at each of which the learning rate is divided by ten, in place of the cosine.
	Drops []int `json:"drops,omitempty"`
	// Optimizer is finetune's. Its layer decay is ViTDet's, see [detect.Backbone.LearningRateFactor].
	Optimizer engine.Optimizer `json:"optimizer"`

	Jitter    scenes.Jitter `json:"jitter"`     // to the size of the detector's images
	EvalSteps int           `json:"eval_steps"` // steps between evaluations
	// ValidationPart is the fraction of a folder's training images for validation, if a Run has no Validation; 0 for none.
	ValidationPart float64 `json:"validation_part,omitempty"`
}

// withDefaults returns r with defaults for its zero fields: those of detector and optimizer by their WithDefaults, a
// jitter of the detector's size without rescaling, and a tenth of the steps between evaluations.
func (r Recipe) withDefaults() Recipe {
	r.Detector = r.Detector.WithDefaults()
	r.Optimizer = r.Optimizer.WithDefaults()
	j, b := &r.Jitter, r.Detector.Backbone
	j.Height, j.Width = cmp.Or(j.Height, b.ImageRows), cmp.Or(j.Width, b.ImageCols)
	if j.Low == 0 && j.High == 0 {
		j.Low, j.High = 1, 1
	}
	r.EvalSteps = cmp.Or(r.EvalSteps, max(1, r.Steps/10))
	return r
}

// validate reports the first field out of its range, by its JSON name.
func (r Recipe) validate() error {
	b, j := r.Detector.Backbone, r.Jitter
	for _, f := range []struct {
		name  string
		value float64
		ok    bool
		want  string
	}{
		{"steps", float64(r.Steps), r.Steps >= 1 && r.Steps <= 1e9, ">= 1"},
		{"batch_size", float64(r.BatchSize), r.BatchSize >= 1 && r.BatchSize <= 1e6, ">= 1"},
		{"learning_rate", r.LearningRate, r.LearningRate > 0 && r.LearningRate < 1e3, "> 0"},
		{"warmup_steps", float64(r.WarmupSteps), r.WarmupSteps >= 0 && r.WarmupSteps <= r.Steps,
			fmt.Sprintf("0 to steps, %d", r.Steps)},
		{"eval_steps", float64(r.EvalSteps), r.EvalSteps >= 1, ">= 1"},
		{"validation_part", r.ValidationPart, r.ValidationPart >= 0 && r.ValidationPart < 1, "0 <= validation_part < 1"},
		{"jitter.height", float64(j.Height), j.Height == b.ImageRows, "the rows of the detector's images"},
		{"jitter.width", float64(j.Width), j.Width == b.ImageCols, "the columns of the detector's images"},
	} {
		if !f.ok {
			return fmt.Errorf("detection: %s is %g, want %s", f.name, f.value, f.want)
		}
	}
	if !slices.IsSorted(r.Drops) || len(r.Drops) > 0 && r.Drops[0] < r.WarmupSteps {
		return fmt.Errorf("detection: drops are %v, want steps after warm-up in rising order", r.Drops)
	}
	if err := j.Validate(); err != nil {
		return err
	}
	if err := r.Optimizer.Validate(); err != nil {
		return err
	}
	if len(r.Optimizer.LearningRates) > 0 {
		return errors.New("detection: optimizer.learning_rates is set: detectors have no groups, want none")
	}
	if err := r.Detector.Validate(); err != nil {
		return err
	}
	return finetune.ValidateParams(r.Params, r.Detector.Backbone.Config)
}

// Set changes fields from settings as finetune.Recipe.Set does, "steps=300;detector.backbone.width=96".
func (r Recipe) Set(settings string) (Recipe, error) {
	r.Params, r.Drops = maps.Clone(r.Params), slices.Clone(r.Drops)
	if err := setting.Set(&r, settings, position.Params()); err != nil {
		return r, fmt.Errorf("detection: %w", err)
	}
	return r, nil
}

// schedule is the learning rate by step.
func (r Recipe) schedule() engine.Schedule {
	return engine.Schedule{Peak: r.LearningRate, Warmup: r.WarmupSteps, Steps: r.Steps, Drops: r.Drops}
}
