// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
)

// schedule returns how many optimizer steps a run has, how many of them warm up, and how many lie between evaluations,
// where an epoch has perPass whole batches.
func (r Recipe) schedule(perPass int) (total, warmup, interval int) {
	if r.Steps > 0 {
		return r.Steps, r.WarmupSteps, r.EvalSteps
	}
	return r.Epochs * perPass, int(math.Round(r.WarmupEpochs * float64(perPass))), r.EvalEpochs * perPass
}

// learningRate is linear warm-up followed by one half cosine down to zero, per optimizer step s of total:
//
//	peak · s/warmup                                        s < warmup
//	peak · ½(1 + cos(π (s-warmup)/(total-warmup)))         otherwise
//
// The first step of a warm-up therefore has rate 0, as in the WePE release's scripts. GoMLX's cosineschedule starts
// over when its period ends and counts its steps in a variable; here the rate is an input of the step's program.
func learningRate(peak float64, s, warmup, total int) float64 {
	if s < warmup {
		return peak * float64(s) / float64(warmup)
	}
	progress := float64(s-warmup) / float64(max(1, total-warmup))
	return peak * 0.5 * (1 + math.Cos(math.Pi*min(1, progress)))
}
