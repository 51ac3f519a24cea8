// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/vit"
)

// Average replaces the weights of the first model by the mean weights of all models: a model soup (Wortsman et al.
// 2022, https://arxiv.org/abs/2203.05482) of runs fine-tuned from one model. It returns an error if the models differ
// in architecture, hyperparameters, classes, scores or preprocessing. Their regularization may differ.
func Average(models ...*checkpoints.Imported) error {
	mean := models[0]
	sums := map[string][]float64{}
	for i, m := range models {
		for _, of := range []struct {
			name string
			same bool
		}{
			{"architecture", inference(m.Config) == inference(mean.Config)},
			{"hyperparameters", reflect.DeepEqual(m.Params, mean.Params)},
			{"classes", slices.Equal(m.Labels, mean.Labels)}, {"scores", m.Scores == mean.Scores},
			{"normalization", slices.Equal(m.Mean, mean.Mean) && slices.Equal(m.Std, mean.Std)},
			{"preprocessing", reflect.DeepEqual(m.Preprocess, mean.Preprocess)},
		} {
			if !of.same {
				return fmt.Errorf("finetune: model %d to average differs from the first in %s", i+1, of.name)
			}
		}
		for _, path := range slices.Sorted(maps.Keys(mean.Variables)) {
			if m.Variables[path] == nil || !m.Variables[path].Shape().Equal(mean.Variables[path].Shape()) {
				return fmt.Errorf("finetune: model %d to average has no variable %s %s", i+1, path,
					mean.Variables[path].Shape())
			}
			values, err := tensors.CopyFlatData[float32](m.Variables[path])
			if err != nil {
				return err
			}
			if sums[path] == nil {
				sums[path] = make([]float64, len(values))
			}
			for k, v := range values {
				sums[path][k] += float64(v)
			}
		}
	}
	for path := range mean.Variables {
		flat := make([]float32, len(sums[path]))
		for k, sum := range sums[path] {
			flat[k] = float32(sum / float64(len(models)))
		}
		dims := mean.Variables[path].Shape().Dimensions
		mean.Variables[path] = tensors.FromFlatDataAndDimensions(flat, dims...)
	}
	return nil
}

// inference returns a configuration without what acts in training only.
func inference(c vit.Config) vit.Config {
	c.Dropout, c.AttentionDropout, c.DropPath, c.Recompute = 0, 0, 0, false
	return c
}
