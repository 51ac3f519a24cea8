// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import "github.com/gomlx/gomlx/ml/model"

// newWePEV is wepe-qkv on the values alone: a third of its parameters and of its work, and attention scores do not
// depend on positions.
//
//	y_i = Σ_j a_ij (1 + f_j·C) ∘ v_j
func newWePEV(scope *model.Scope, c Config) Encoder {
	scope = scope.In("wepe_v")
	return newModulation(scope, c, "wepe-v", halfCellField(scope, c), "value")
}

// newFourierV is the control of wepe-v, with as many sines and cosines in place of ℘ and ℘′.
func newFourierV(scope *model.Scope, c Config) Encoder {
	return newModulation(scope.In("fourier_v"), c, "fourier-v", waves{c.Rows, c.Cols}, "value")
}
