// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"math/rand/v2"

	"github.com/wepe-go/wepe/internal/weight"
)

// Initialisation schemes. Results from scratch depend on them (timm issue 1477), so they are part of the configuration.
const (
	// InitTimm draws every linear weight from N(0, 0.02²) and the patch projection uniformly in ±1/√fan-in (PyTorch's
	// default). timm's trunc_normal_(std=.02) cuts at ±2, 100 standard deviations.
	InitTimm = "timm"
	// InitJAX is Google's: Xavier-uniform weights, N(0, 1/fan-in) patch projection, MLP biases N(0, 1e-6²), head zero.
	InitJAX = "jax"
	// InitRelease is the scheme of the WePE release: as timm, but Xavier-uniform patch projection and query, key, value;
	// the latter with the bounds of the stacked [3·width, width] matrix of torch's MultiheadAttention.
	InitRelease = "release"
)

var inits = []string{InitTimm, InitJAX, InitRelease}

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
	case InitJAX:
		return initScheme{lecunNormal, xavier, xavier, weight.Normal(1e-6), zero, zero}
	case InitRelease:
		return initScheme{xavier, xavierStacked, small, zero, small, small}
	default:
		return initScheme{torchLinear, small, small, zero, small, weight.Normal(1e-6)}
	}
}
