// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"cmp"
	"math"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
)

// newRopeAxial is the axial form of rope-vit (https://arxiv.org/abs/2403.13298) and of EVA-02
// (https://arxiv.org/abs/2303.11331): with f_j = θ^(-4j/d), j = 0 … d/4-1, the first half of the pairs turns by
// col·f_j, the second by row·f_j.
func newRopeAxial(scope *model.Scope, c Config) Encoder {
	theta, begin, offset, ofRows, ofCols := 100., "col", 0., 0, 0
	readSettings(scope, thetaSetting(&theta),
		setting.Choice(ParamRopeAxialFirst, &begin, "what turns the first half of the pairs", "col", "row"),
		setting.Number(ParamRopeAxialOffset, &offset, -math.MaxFloat32, math.MaxFloat32, "the first coordinate"),
		setting.Number(ParamRopeAxialRows, &ofRows, 0, maxSide, "R of EVA-02, where row r of n is at (r + offset)·R/n; "+
			"0 counts rows, not scaled, on every grid"),
		setting.Number(ParamRopeAxialCols, &ofCols, 0, maxSide, "the same of columns"))
	f := frequencies(theta, c.headDim()/4)
	scaled := func(at float64, n, reference int) float64 {
		if at += offset; reference > 0 {
			at *= float64(reference) / float64(n)
		}
		return at
	}
	return newRotation("rope-axial", c, false, fixedPairs(c, 0, func(k, i int) float64 {
		x, y := c.patch(k)
		first, second := scaled(x, c.Cols, ofCols), scaled(y, c.Rows, ofRows)
		if begin == "row" {
			first, second = second, first
		}
		if i < len(f) {
			return first * f[i]
		}
		return second * f[i-len(f)]
	}))
}

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
