// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/weight"
)

// PyTorch's defaults, also in the original and the release.
const (
	batchNormEpsilon  = 1e-5
	batchNormMomentum = 0.1 // how far one batch moves the running statistics
)

// batchNorm normalizes each channel of x, [cells, batch, channels]: in training by mean and biased variance of the
// batch, moving the running statistics towards its mean and unbiased variance; otherwise by the running statistics.
func batchNorm(scope *model.Scope, x *Node) *Node {
	g, channels := x.Graph(), x.Shape().Dim(-1)
	gain, offset := gainAndOffset(scope, x)
	// Variables from a checkpoint are trainable.
	mean := weight.Float32(scope, "mean", weight.Constant(0), channels).SetTrainable(false)
	variance := weight.Float32(scope, "variance", weight.Constant(1), channels).SetTrainable(false)
	m, v := Reshape(mean.NodeValue(g), 1, 1, channels), Reshape(variance.NodeValue(g), 1, 1, channels)
	if scope.IsTraining(g) {
		n := float64(x.Shape().Size() / channels)
		if n < 2 {
			exceptions.Panicf("dhvt: batch normalization of %s: training wants more than one value per channel", x.Shape())
		}
		batchMean := ReduceAndKeep(x, ReduceMean, 0, 1) // [1, 1, channels]
		batchVariance := ReduceAndKeep(Square(Sub(x, batchMean)), ReduceMean, 0, 1)
		move := func(running *model.Variable, old, batch *Node) {
			now := Add(MulScalar(old, 1-batchNormMomentum), MulScalar(batch, batchNormMomentum))
			running.SetNodeValue(Reshape(StopGradient(now), channels))
		}
		move(mean, m, batchMean)
		move(variance, v, MulScalar(batchVariance, n/(n-1)))
		m, v = batchMean, batchVariance
	}
	scale := Div(gain, Sqrt(AddScalar(v, batchNormEpsilon))) // [1, 1, channels]
	return Add(Mul(Sub(x, m), scale), offset)
}

// gainAndOffset returns the factor and the summand of each channel of x, [cells, batch, channels], as [1, 1, channels].
func gainAndOffset(scope *model.Scope, x *Node) (gain, offset *Node) {
	g, channels := x.Graph(), x.Shape().Dim(-1)
	gain = weight.Float32(scope, "gain", weight.Constant(1), channels).NodeValue(g)
	offset = weight.Float32(scope, "offset", weight.Constant(0), channels).NodeValue(g)
	return Reshape(gain, 1, 1, channels), Reshape(offset, 1, 1, channels)
}
