// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"math/rand/v2"

	"github.com/wepe-go/wepe/internal/weight"
)

// Values of Config.Init.
const (
	initTimm    = "timm"
	initJAX     = "jax"
	initRelease = "release"
)

var inits = []string{initTimm, initJAX, initRelease}

func torchLinear(r *rand.Rand, fanIn, fanOut int) float64 {
	return weight.Uniform(1/math.Sqrt(float64(fanIn)))(r, fanIn, fanOut)
}

func lecunNormal(r *rand.Rand, fanIn, _ int) float64 {
	return r.NormFloat64() / math.Sqrt(float64(fanIn))
}

func xavierStacked(r *rand.Rand, fanIn, fanOut int) float64 {
	return weight.Xavier(1)(r, fanIn, 3*fanOut)
}

// initScheme sets the initial values of each kind of weight. Norm gains start at 1 and biases at 0 unless named here.
type initScheme struct {
	patch, query, dense, mlpBias, head, class weight.Fill
}

func (c Config) initScheme() initScheme {
	small, zero, xavier := weight.Normal(0.02), weight.Constant(0), weight.Xavier(1)
	switch c.Init {
	case initJAX:
		return initScheme{lecunNormal, xavier, xavier, weight.Normal(1e-6), zero, zero}
	case initRelease:
		return initScheme{xavier, xavierStacked, small, zero, small, small}
	default:
		return initScheme{torchLinear, small, small, zero, small, weight.Normal(1e-6)}
	}
}
