// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

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
