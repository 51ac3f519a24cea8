// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import "math"

// learningRate is linear warm-up followed by one half cosine down to zero, per optimizer step s of total:
//
//	peak · s/warmup                                        s < warmup
//	peak · ½(1 + cos(π (s-warmup)/(total-warmup)))         otherwise
//
// The first step of a warm-up therefore has rate 0, as in the WePE release's scripts.
func learningRate(peak float64, s, warmup, total int) float64 {
	if s < warmup {
		return peak * float64(s) / float64(warmup)
	}
	progress := float64(s-warmup) / float64(max(1, total-warmup))
	return peak * 0.5 * (1 + math.Cos(math.Pi*min(1, progress)))
}
