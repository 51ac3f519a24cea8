// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
)

// headNormEpsilon is the ε of the head tokens' LayerNorm, PyTorch's default in the original and in the release,
// independent of the other norms.
const headNormEpsilon = 1e-5

// attention is head-interacted multi-head self-attention on x, [1+N, batch, width].
func (c Config) attention(scope *model.Scope, x *Node, see watch) *Node {
	init := c.initScheme()
	tokens, batch := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	x = Concatenate([]*Node{x, c.headTokens(scope.In("head_tokens"), x, see)}, 0) // [1+N+heads, batch, width]

	project := func(scope *model.Scope) *Node { return weight.Dense(scope, x, c.Width, init.dense, weight.Constant(0)) }
	q, k, v := project(scope.In("query")), project(scope.In("key")), project(scope.In("value"))
	see("attn.q", q)
	see("attn.k", k)
	see("attn.v", v)
	heads := func(x *Node, axes ...int) *Node {
		return TransposeAllAxes(Reshape(x, x.Shape().Dimensions[0], batch, c.Heads, c.headDim()), axes...)
	}
	scores := MatMul(heads(q, 1, 2, 0, 3), heads(k, 1, 2, 3, 0)) // [batch, heads, query, key]
	weights := Softmax(MulScalar(scores, 1/math.Sqrt(float64(c.headDim()))), -1)
	y := TransposeAllAxes(MatMul(weights, heads(v, 1, 2, 0, 3)), 2, 0, 1, 3) // [query, batch, heads, headDim]
	y = Reshape(y, x.Shape().Dimensions...)
	y = weight.Dense(scope.In("output"), y, c.Width, init.dense, weight.Constant(0))
	see("attn.proj", y)

	// The class token receives the mean of the head tokens, which are dropped here.
	class := Add(kernel.Crop(y, 0, 0, 1), ReduceAndKeep(kernel.Crop(y, 0, tokens, tokens+c.Heads), ReduceMean, 0))
	y = Concatenate([]*Node{class, kernel.Crop(y, 0, 1, tokens)}, 0) // [1+N, batch, width]
	see("attn", y)
	return y
}

// headTokens returns one token per head, [heads, batch, width], from its part of the mean of all tokens of x.
func (c Config) headTokens(scope *model.Scope, x *Node, see watch) *Node {
	init := c.initScheme()
	g, batch := x.Graph(), x.Shape().Dimensions[1]
	mean := Reshape(ReduceMean(x, 0), batch, c.Heads, c.headDim())
	y := weight.Dense(scope, mean, c.Width, init.dense, weight.Constant(0)) // [batch, heads, width]
	see("attn.ht_proj", y)
	y = Reshape(y, batch, c.Heads, c.Heads, c.headDim())
	y = weight.LayerNorm(scope.In("norm"), y, headNormEpsilon)
	see("attn.ht_norm", y)
	y = Reshape(activation.Gelu(y), batch, c.Heads, c.Width)
	embedding := weight.Float32(scope, "embedding", init.token, c.Heads, c.Width).NodeValue(g) // [heads, width]
	return TransposeAllAxes(Add(y, Reshape(embedding, 1, c.Heads, c.Width)), 1, 0, 2)
}

// daff is the dynamic aggregation feed-forward on x, [1+N, batch, width]. The convolutions skip the class token.
func (c Config) daff(scope *model.Scope, x *Node, see watch) *Node {
	init := c.initScheme()
	tokens := x.Shape().Dimensions[0]
	class, y := kernel.Crop(x, 0, 0, 1), kernel.Crop(x, 0, 1, tokens) // [1, batch, width], [N, batch, width]
	pointwise := func(scope *model.Scope, y *Node, out int) *Node {
		in := y.Shape().Dim(-1)
		y = weight.Dense(scope, y, out, init.conv(in, out), init.convBias(in))
		return batchNorm(scope.In("norm"), y)
	}
	y = pointwise(scope.In("hidden"), y, c.MLPDim) // [N, batch, mlpDim]
	see("mlp.bn1", y)
	shortcut := activation.Gelu(y)
	y = c.depthwise(scope.In("depthwise"), shortcut)
	see("mlp.bn2", y)
	y = pointwise(scope.In("output"), Add(shortcut, activation.Gelu(y)), c.Width) // [N, batch, width]
	see("mlp.bn3", y)

	squeezed := ReduceMean(y, 0)                                                                      // [batch, width]
	squeezed = weight.Dense(scope.In("squeeze"), squeezed, c.Width/4, init.dense, weight.Constant(0)) // [batch, width/4]
	see("mlp.compress", squeezed)
	gate := weight.Dense(scope.In("excite"), activation.Gelu(squeezed), c.Width, init.dense, weight.Constant(0))
	see("mlp.excitation", gate)
	class = Mul(class, InsertAxes(gate, 0))
	y = Concatenate([]*Node{class, y}, 0)
	see("mlp", y)
	return y
}

// depthwise convolves each channel of x, [N, batch, channels], with its own 3×3 weights and normalizes the result.
func (c Config) depthwise(scope *model.Scope, x *Node) *Node {
	g, d, init := x.Graph(), x.Shape().Dimensions, c.initScheme()
	w := weight.Float32(scope, "weights", init.conv(9, 9*d[2]), 3, 3, d[2]).NodeValue(g)
	b := weight.Float32(scope, "biases", init.convBias(9), d[2]).NodeValue(g)
	y := kernel.Depthwise3x3(Reshape(x, c.Rows(), c.Cols(), d[1], d[2]), w, b, 0)
	return batchNorm(scope.In("norm"), Reshape(y, d...))
}

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
	// Trainable only while they are read: GoMLX writes the values of others into evaluation programs of ONNX Runtime.
	mean := weight.Float32(scope, "mean", weight.Constant(0), channels).SetTrainable(true)
	variance := weight.Float32(scope, "variance", weight.Constant(1), channels).SetTrainable(true)
	m, v := Reshape(mean.NodeValue(g), 1, 1, channels), Reshape(variance.NodeValue(g), 1, 1, channels)
	mean.SetTrainable(false)
	variance.SetTrainable(false)
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
