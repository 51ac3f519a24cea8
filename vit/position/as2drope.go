// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"cmp"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
)

// newAS2DRoPE is VisionLLaMA's auto-scaled encoding (https://arxiv.org/abs/2403.00522): with f_j = θ^(-4j/d),
// j = 0 … d/4-1, pair 2j turns by s·col·f_j and pair 2j+1 by s·row·f_j, where s = base rows/rows scales a grid to the
// size of the training grid, columns by the same factor as rows. The class token is rotated too, as the last patch of
// row -1, before the first patch.
func newAS2DRoPE(scope *model.Scope, c Config) Encoder {
	theta, base := 10000., 0
	readSettings(scope, thetaSetting(&theta), setting.Number(as2dRoPEBase, &base, 0, maxSide, "the rows of patches in "+
		"training: positions are scaled by them over the current rows; 0 for the model's own"))
	scale := float64(cmp.Or(base, c.Rows)) / float64(c.Rows)
	f := frequencies(theta, c.headDim()/4)
	return newRotation("as2drope", c, false, fixedPairs(c, -c.Prefix, func(k, i int) float64 {
		x, y := float64(c.Cols-1), -1. // of the class token
		if k >= 0 {
			x, y = c.patch(k)
		} else if k+c.Prefix >= c.classes() { // a register
			return 0
		}
		if i%2 == 0 {
			return scale * x * f[i/2]
		}
		return scale * y * f[i/2]
	}))
}
