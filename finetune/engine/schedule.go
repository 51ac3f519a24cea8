// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Schedule is the learning rate of step s, from 0: linear warm-up, then one half cosine down to zero
//
//	Peak · s/Warmup                                        s < Warmup
//	Peak · ½(1 + cos(π (s-Warmup)/(Steps-Warmup)))         otherwise
//
// or with Milestones, or without Steps, a constant Peak after the warm-up. The first step of a warm-up therefore has
// rate 0, as in the WePE release's scripts. GoMLX's cosineschedule restarts when its period ends.
type Schedule struct {
	Peak          float64
	Warmup, Steps int
	Milestones    []int // steps at each of which the rate is divided by ten, in place of the cosine
}

// At returns the learning rate of a step.
func (s Schedule) At(step int) float64 {
	switch {
	case step < s.Warmup:
		return s.Peak * float64(step) / float64(s.Warmup)
	case len(s.Milestones) > 0 || s.Steps == 0:
		rate := s.Peak
		for _, drop := range s.Milestones {
			if step >= drop {
				rate /= 10
			}
		}
		return rate
	}
	progress := float64(step-s.Warmup) / float64(max(1, s.Steps-s.Warmup))
	return s.Peak * 0.5 * (1 + math.Cos(math.Pi*min(1, progress)))
}

// node is At in a graph: of a float64 step, a scalar.
func (s Schedule) node(step *Node) *Node {
	g := step.Graph()
	number := func(v float64) *Node { return Scalar(g, dtypes.Float64, v) }
	rate := number(s.Peak)
	if len(s.Milestones) > 0 || s.Steps == 0 {
		for _, drop := range s.Milestones {
			rate = Where(GreaterOrEqual(step, number(float64(drop))), DivScalar(rate, 10), rate)
		}
	} else {
		progress := DivScalar(AddScalar(step, -float64(s.Warmup)), float64(max(1, s.Steps-s.Warmup)))
		rate = MulScalar(OnePlus(Cos(MulScalar(MinScalar(progress, 1), math.Pi))), s.Peak*0.5)
	}
	if s.Warmup > 0 {
		rate = Where(LessThan(step, number(float64(s.Warmup))), MulScalar(step, s.Peak/float64(s.Warmup)), rate)
	}
	return rate
}
