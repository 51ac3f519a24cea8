// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import "github.com/gomlx/gomlx/ml/model"

// newRopeAxial is the axial form of rope-vit (https://arxiv.org/abs/2403.13298): with θ = 100 and
// f_j = θ^(-4j/d), j = 0 … d/4-1, the first half of the pairs turns by col·f_j, the second by row·f_j. Rows and columns
// are counted, not scaled, on every grid.
func newRopeAxial(scope *model.Scope, c Config) Rotary {
	f := frequencies(ropeTheta(scope, 100), c.headDim()/4)
	return newRotation("rope-axial", c, false, fixedPairs(c, 0, func(k, i int) float64 {
		x, y := c.place(k)
		if i < len(f) {
			return x * f[i]
		}
		return y * f[i-len(f)]
	}))
}
