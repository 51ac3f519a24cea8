// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import "github.com/gomlx/gomlx/ml/model"

// newRope1D is RoFormer's encoding (https://arxiv.org/abs/2104.09864) over the number k of the patch, row by row: pair
// i of d/2 turns by k·θ^(-2i/d). Another grid continues the numbers: rows are Cols positions apart.
func newRope1D(scope *model.Scope, c Config) Encoder {
	f := frequencies(ropeTheta(scope, 10000), c.headDim()/2)
	return newRotation("rope1d", c, false, fixedPairs(c, 0, func(k, i int) float64 { return float64(k) * f[i] }))
}
