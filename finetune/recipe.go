// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/vit"
)

// Recipe says everything about a training but the data, the seed and the machine. It is a literal, saved with every
// checkpoint and every row.
type Recipe struct {
	Name string `json:"name"`

	// Model is the network; image size and classes left at zero are taken from the data.
	Model vit.Config `json:"model"`
	// Params are hyperparameters of the model's scope, those of the encoding: "wepe_…".
	Params map[string]any `json:"params,omitempty"`

	Epochs     int `json:"epochs"`
	BatchSize  int `json:"batch_size"` // images per optimizer step; an epoch drops what does not fill a batch
	Accumulate int `json:"accumulate"` // parts a batch is computed in, to save memory; default 1, divides BatchSize

	LearningRate float64   `json:"learning_rate"` // at the end of warm-up
	WarmupEpochs float64   `json:"warmup_epochs"` // then one half cosine down to 0 at the last step
	Optimizer    Optimizer `json:"optimizer"`
	Smoothing    float64   `json:"smoothing"` // label smoothing
	EMA          float64   `json:"ema"`       // decay of the averaged weights that are evaluated and kept; 0 for none

	Augment data.Augment `json:"augment"`
	// From epoch LateFrom on, mixup draws λ with LateMixupAlpha instead (the release's two stages); 0 for never.
	LateFrom       int     `json:"late_from,omitempty"`
	LateMixupAlpha float64 `json:"late_mixup_alpha,omitempty"`

	EvalEpochs     int     `json:"eval_epochs"`     // epochs between evaluations, default 1
	EvalBatchSize  int     `json:"eval_batch_size"` // images per evaluation step, default BatchSize
	ValidationPart float64 `json:"validation_part"` // of the training images, held out; default 0.1, negative for none
}

// WithDefaults returns r with every zero field that has a default filled in.
func (r Recipe) WithDefaults() Recipe {
	setDefault(&r.Accumulate, 1)
	setDefault(&r.EvalEpochs, 1)
	setDefault(&r.EvalBatchSize, r.BatchSize)
	setDefault(&r.ValidationPart, 0.1)
	r.Optimizer = r.Optimizer.withDefaults()
	r.Model = r.Model.WithDefaults()
	return r
}

// fit fills in what the data decides, image size and classes, and refuses what contradicts it.
func (r Recipe) fit(set *data.Set) (Recipe, error) {
	rows, cols := r.Augment.OutputSize(set.Height, set.Width)
	for _, f := range []struct {
		name  string
		field *int
		value int
	}{
		{"image_rows", &r.Model.ImageRows, rows}, {"image_cols", &r.Model.ImageCols, cols},
		{"channels", &r.Model.Channels, set.Channels}, {"classes", &r.Model.Classes, len(set.Classes)},
	} {
		setDefault(f.field, f.value)
		if *f.field != f.value {
			return r, fmt.Errorf("finetune: the model's %s is %d, but data set %s gives %d", f.name, *f.field, set.Name,
				f.value)
		}
	}
	r = r.WithDefaults()
	return r, r.Validate()
}

// Validate reports the first field out of its range, by its JSON name.
func (r Recipe) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
		ok    bool
		want  string
	}{
		{"epochs", float64(r.Epochs), r.Epochs >= 1 && r.Epochs <= 1e6, ">= 1"},
		{"batch_size", float64(r.BatchSize), r.BatchSize >= 1 && r.BatchSize <= 1e6, ">= 1"},
		{"accumulate", float64(r.Accumulate), r.Accumulate >= 1 && r.BatchSize%max(1, r.Accumulate) == 0,
			"a divisor of batch_size"},
		{"learning_rate", r.LearningRate, r.LearningRate > 0 && r.LearningRate < 1e3, "> 0"},
		{"warmup_epochs", r.WarmupEpochs, r.WarmupEpochs >= 0 && r.WarmupEpochs <= float64(r.Epochs), "0 to epochs"},
		{"smoothing", r.Smoothing, r.Smoothing >= 0 && r.Smoothing < 1, "0 <= smoothing < 1"},
		{"ema", r.EMA, r.EMA >= 0 && r.EMA < 1, "0 <= ema < 1"},
		{"late_mixup_alpha", r.LateMixupAlpha, r.LateFrom == 0 || r.LateMixupAlpha > 0 && r.Augment.MixupAlpha > 0,
			"> 0, with augment.mixup_alpha > 0, where late_from is set"},
		{"eval_epochs", float64(r.EvalEpochs), r.EvalEpochs >= 1, ">= 1"},
		{"eval_batch_size", float64(r.EvalBatchSize), r.EvalBatchSize >= 1 && r.EvalBatchSize <= 1e6, ">= 1"},
		{"validation_part", r.ValidationPart, r.ValidationPart < 1, "< 1"},
	} {
		if !f.ok {
			return fmt.Errorf("finetune: %s is %g, want %s", f.name, f.value, f.want)
		}
	}
	if err := r.Optimizer.validate(); err != nil {
		return err
	}
	if err := r.Augment.Validate(); err != nil {
		return err
	}
	return r.Model.Validate()
}

// augmentation returns the augmentation of an epoch.
func (r Recipe) augmentation(epoch int) data.Augment {
	a := r.Augment
	if r.LateFrom > 0 && epoch >= r.LateFrom {
		a.MixupAlpha = r.LateMixupAlpha
	}
	return a
}

// Set changes fields from settings in GoMLX's form, "epochs=3;optimizer.weight_decay=0.1;wepe_alpha_scale=0.2": the
// JSON names of Recipe, joined by dots, or a hyperparameter of the encoding. Values are JSON; a bare word is a string.
func (r Recipe) Set(settings string) (Recipe, error) {
	encoded, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	var fields map[string]any
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return r, err
	}
	for _, setting := range strings.FieldsFunc(settings, func(c rune) bool { return c == ';' }) {
		key, text, ok := strings.Cut(setting, "=")
		key, text = strings.TrimSpace(key), strings.TrimSpace(text)
		if !ok || key == "" {
			return r, fmt.Errorf("finetune: setting %q is not of the form key=value", setting)
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			value = text
		}
		if strings.HasPrefix(key, "wepe_") {
			key = "params." + key
		}
		at := fields
		parts := strings.Split(key, ".")
		for _, part := range parts[:len(parts)-1] {
			inner, ok := at[part].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[part] = inner
			}
			at = inner
		}
		at[parts[len(parts)-1]] = value
	}
	if encoded, err = json.Marshal(fields); err != nil {
		return r, err
	}
	var out Recipe
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		return r, fmt.Errorf("finetune: settings %q: %w (fields are those of the recipe: %s; and wepe_…)", settings,
			err, strings.Join(fieldNames(), ", "))
	}
	return out, nil
}

// fieldNames lists the names Set accepts at the top level.
func fieldNames() []string {
	encoded, _ := json.Marshal(Recipe{Params: map[string]any{"": 0}, LateFrom: 1, LateMixupAlpha: 1})
	var fields map[string]any
	_ = json.Unmarshal(encoded, &fields)
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
