// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
)

// newALiBi2D is ALiBi in two dimensions, as in CROMA (https://arxiv.org/abs/2311.00566): head h adds -m_h·‖Δ‖ to the
// score of two patches, the slope of the head times the Euclidean distance of their centres in patches, the same in
// every block. Pairs with the class token get 0 (CROMA has no class token).
//
// On another grid distances are still counted in patches: pairs farther apart than in training are penalized by the
// same slopes.
func newALiBi2D(_ *model.Scope, c Config) Encoder {
	slopes := alibiSlopes(c.Heads)
	return &fixedBias{name: "alibi2d", c: c, layers: 1, ofOffset: func(_, head int, o additive.Offset) float64 {
		return -slopes[head] * math.Hypot(float64(o.Rows), float64(o.Cols))
	}}
}

// alibiSlopes returns ALiBi's slope of each of n heads (https://arxiv.org/abs/2108.12409): 2^(-8i/n), i = 1 … n, if n
// is a power of two; otherwise the slopes for the power of two below, then every second slope for the power above.
func alibiSlopes(n int) []float64 {
	below := 1
	for 2*below <= n {
		below *= 2
	}
	slopes := make([]float64, n)
	for i := range slopes {
		slopes[i] = math.Exp2(-8 * float64(i+1) / float64(below))
		if i >= below {
			slopes[i] = math.Exp2(-4 * float64(2*(i-below)+1) / float64(below))
		}
	}
	return slopes
}
