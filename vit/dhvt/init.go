// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"math"

	"github.com/wepe-go/wepe/internal/weight"
)

// initScheme sets the initial values of each kind of weight. Biases of dense layers and offsets start at 0, gains at 1.
type initScheme struct {
	dense, token weight.Fill
	conv         func(fanIn, fanOut int) weight.Fill // convolutions, the pointwise ones too
	convBias     func(fanIn int) weight.Fill
}

func (c Config) initScheme() initScheme {
	// The default of Conv2d.
	torch := func(fanIn int) weight.Fill { return weight.Uniform(1 / math.Sqrt(float64(fanIn))) }
	s := initScheme{
		dense: weight.Normal(0.02), token: weight.Normal(0.02),
		conv: func(fanIn, _ int) weight.Fill { return torch(fanIn) }, convBias: torch,
	}
	if c.Init == "release" {
		// Xavier, with the fans of the whole window.
		s.conv = func(fanIn, fanOut int) weight.Fill { return weight.Uniform(math.Sqrt(6 / float64(fanIn+fanOut))) }
		s.convBias = func(int) weight.Fill { return weight.Constant(0) }
	}
	return s
}
