// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"maps"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/vit"
)

// Set changes fields from settings in GoMLX's form, "epochs=3;optimizer.weight_decay=0.1;wepe_alpha_scale=0.2": the
// JSON names of Recipe, joined by dots, or a hyperparameter of the encoding. Values are JSON; a bare word is a string.
// If a field is set twice, the last value counts.
func (r Recipe) Set(settings string) (Recipe, error) {
	r.Params = maps.Clone(r.Params) // decoding adds to maps in place
	r.Optimizer.LearningRates = maps.Clone(r.Optimizer.LearningRates)
	if err := setting.Set(&r, settings, vit.Params()); err != nil {
		return r, fmt.Errorf("finetune: %w", err)
	}
	return r, nil
}
