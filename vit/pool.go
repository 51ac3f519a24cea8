// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// hiddenScore is added to the scores of masked tokens: their softmax is exactly 0.
const hiddenScore = -1e9

// PoolWeights returns the weights of the tokens in the pooled vector, [tokens], where patches follow the prefix; if the
// pool concatenates two vectors, the weights of both. Pool "map" has those of "mean": equal ones for all it attends to.
func (c Config) PoolWeights(patches, tokens int) []float32 {
	mean := func(from, to int) []float32 {
		weights := make([]float32, tokens)
		for i := from; i < to; i++ {
			weights[i] = 1 / float32(to-from)
		}
		return weights
	}
	first, last := c.Prefix(), c.Prefix()+patches
	switch {
	case c.Pool == poolClass:
		return mean(0, 1)
	case c.Pool == poolClassRegister:
		return append(mean(0, 1), mean(1, 2)...)
	case c.Pool == poolClassMean:
		return append(mean(0, 1), mean(first, last)...)
	case c.PoolPrefix:
		return mean(0, last)
	}
	return mean(first, last)
}

// mapPool is the pooling of SigLIP (https://arxiv.org/abs/2303.15343): a learned query attends to the tokens
// x [batch, tokens, width], scores plus hidden [batch or 1, 1, 1, tokens] or nil; then x += mlp(norm(x)).
func (c Config) mapPool(scope *model.Scope, x, hidden *Node) *Node {
	init, heads := c.initScheme(), c.poolHeads()
	dense := func(name string, x *Node, out int, fill weight.Fill) *Node {
		return weight.Dense(scope.In("%s", name), x, out, fill, weight.Constant(0))
	}
	split := func(x *Node) *Node { return Reshape(x, x.Shape().Dim(0), -1, heads, c.Width/heads) }
	latent := weight.Float32(scope, "latent", weight.Normal(1/math.Sqrt(float64(c.Width))), 1, c.Width)
	query := split(dense("query", InsertAxes(latent.NodeValue(x.Graph()), 0), c.Width, init.query)) // [1, 1, heads, d]
	key, value := split(dense("key", x, c.Width, init.query)), split(dense("value", x, c.Width, init.query))
	scores := MulScalar(Einsum("qhd,bthd->bhqt", Squeeze(query, 0), key), 1/math.Sqrt(float64(c.Width/heads)))
	if hidden != nil {
		scores = Add(scores, hidden)
	}
	mixed := Einsum("bhqt,bthd->bqhd", Softmax(scores, -1), value)                       // [batch, 1, heads, d]
	y := dense("output", Reshape(mixed, x.Shape().Dim(0), c.Width), c.Width, init.dense) // [batch, width]
	mlp := c.activate(dense("mlp_hidden", c.norm(scope.In("norm"), y), c.poolMLPDim(), init.dense))
	return Add(y, dense("mlp_output", mlp, c.Width, init.dense))
}
