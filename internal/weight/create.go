// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weight

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// The scopes of a training's store.
const (
	ModelScope   = "vit" // of the model
	AverageScope = "ema" // of the moving averages of its weights
)

// ErrLoader refuses a store with a loader, which could answer CreateVariable with a value of its own.
var ErrLoader = errors.New("the store has a loader attached: load into one without")

// Create creates variables by their paths below a scope, before a model is built there. None may exist.
func Create(scope *model.Scope, values map[string]*tensors.Tensor) error {
	store := scope.Store()
	if store.Loader() != nil {
		return ErrLoader
	}
	paths := slices.Sorted(maps.Keys(values))
	for _, path := range paths {
		if full := model.JoinPath(scope.Scope(), path); store.GetVariable(full) != nil {
			return fmt.Errorf("the store has a variable %q already: load before the model is built", full)
		}
	}
	for _, path := range paths {
		if _, err := store.CreateVariable(model.JoinPath(scope.Scope(), path), values[path]); err != nil {
			return fmt.Errorf("variable %q: %w", path, err)
		}
	}
	return nil
}
