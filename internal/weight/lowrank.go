// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weight

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
)

// LowRankRoot is the scope of all low-rank factors in a store, outside of the models.
const LowRankRoot = "/lora"

// LowRank creates the factors of a low-rank adapter (LoRA, Hu et al. 2021, https://arxiv.org/abs/2106.09685) of a
// matrix W [in, out]: in training a model computes x·(W + A·B). A [in, rank] is uniform in ±1/√in, as in peft, and B
// [rank, out] is zero.
func LowRank(store *model.Store, w *model.Variable, rank int) {
	in, out := w.Shape().Dim(0), w.Shape().Dim(1)
	scope := store.Scope(LowRankRoot + w.Path())
	Float32(scope, "a", Uniform(1/math.Sqrt(float64(in))), in, rank)
	Float32(scope, "b", Constant(0), rank, out)
}

// Factors returns A and B of a matrix as values of a graph, nil if it has none.
func Factors(store *model.Store, w *model.Variable, g *Graph) (a, b *Node) {
	scope := store.Scope(LowRankRoot + w.Path())
	if v := scope.GetVariable("a"); v != nil {
		return v.NodeValue(g), scope.GetVariable("b").NodeValue(g)
	}
	return nil, nil
}

// adapted adds x·A·B to y = x·W + b in training. Otherwise W is already the sum.
func adapted(scope *model.Scope, w *model.Variable, x, y *Node) *Node {
	if !scope.IsTraining(x.Graph()) {
		return y
	}
	a, b := Factors(scope.Store(), w, x.Graph())
	if a == nil {
		return y
	}
	low := kernel.Dense(x, ConvertDType(a, x.DType()), nil) // [..., rank]
	return Add(y, kernel.Dense(low, ConvertDType(b, x.DType()), nil))
}
