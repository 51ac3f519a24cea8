// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math/rand/v2"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// Variable paths, below the scope given to New. They are a file format; the package documentation lists them.
const (
	scopeName       = "wepe"
	sphereSuffix    = "_sphere" // of scopeName and scopeBias where the features lie on the sphere
	nameOmega3      = "omega3_raw"
	nameOmega3Re    = "omega3_re"
	nameAlphaScale  = "alpha_scale_raw"
	nameBetaPos     = "beta_pos"
	namePrefix      = "prefix"
	scopeProjection = "projection"
	scopeHidden     = "hidden"
	scopeOutput     = "output"
	scopeDense      = "dense"
	scopeNorm       = "layer_normalization"
)

func scalarVariable(scope *model.Scope, name string, value float64, learn bool) *model.Variable {
	// Set explicitly, because variables from a checkpoint are trainable.
	return weight.Float32(scope, name, weight.Constant(value)).SetTrainable(learn)
}

// listVariable creates a variable with the given initial values.
func listVariable(scope *model.Scope, name string, values []float64, learn bool) *model.Variable {
	start := weight.AtOnce(func(*rand.Rand) []float64 { return values })
	return weight.Float32(scope, name, start, len(values)).SetTrainable(learn)
}
