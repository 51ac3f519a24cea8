// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Hyperparameters of as2drope.
const (
	// paramAS2DRoPEBaseRows is the number of rows of patches of the grid that an as2drope model was trained on, >= 1:
	// positions are scaled by it over the current rows. Default 0, the model's own rows, which is a scale of 1.
	paramAS2DRoPEBaseRows = "as2drope_base_rows"

	// paramAS2DRoPERotateClass reports whether as2drope turns the class token, as the original does. Default true.
	paramAS2DRoPERotateClass = "as2drope_rotate_class"
)

// newAS2DRoPE is VisionLLaMA's auto-scaled encoding (https://arxiv.org/abs/2403.00522): with f_j = θ^(-4j/d),
// j = 0 … d/4-1, pair 2j turns by s·col·f_j and pair 2j+1 by s·row·f_j, where s = base rows/rows shrinks a grid to the
// size of the one trained on, columns by the same factor as rows. The class token is turned too, as the patch in front
// of the first: the last of row -1.
func newAS2DRoPE(scope *model.Scope, c Config) Rotary {
	base := model.GetParamOr(scope, paramAS2DRoPEBaseRows, 0)
	if base < 0 {
		exceptions.Panicf("vit: %s is %d, want >= 1, or 0 for the model's own rows", paramAS2DRoPEBaseRows, base)
	}
	scale := float64(cmp.Or(base, c.Rows())) / float64(c.Rows())
	rotateClass := model.GetParamOr(scope, paramAS2DRoPERotateClass, true)
	f := frequencies(ropeTheta(scope, 10000), c.headDim()/4)
	return newRotation("as2drope", c, false, fixedPairs(c, -c.Prefix(), func(k, i int) float64 {
		if k < 0 {
			if k+c.Prefix() >= c.classTokens() || !rotateClass { // a register, or a class token that stays
				return 0
			}
			k = -1
		}
		x, y := c.position(k)
		if i%2 == 0 {
			return scale * x * f[i/2]
		}
		return scale * y * f[i/2]
	}))
}
