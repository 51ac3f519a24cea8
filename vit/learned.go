// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// newLearned is a free vector for each token, prefix included (ViT's APE, https://arxiv.org/abs/2010.11929),
// N(0, 0.02²) at the start. Its rows belong to one grid: another one takes them resampled, which each code base does in
// its own way (checkpoints.Resample knows them, and the import of a checkpoint applies the one of its origin).
func newLearned(scope *model.Scope, c Config) Additive {
	v := learnedRows(scope, c)
	return &table{name: "learned", rows: func(g *Graph) *Node { return v.NodeValue(g) }}
}

const learnedName = "embedding" // of the learned rows, in the scope of the positions

func learnedRows(scope *model.Scope, c Config) *model.Variable {
	return weight.Float32(scope, learnedName, weight.Normal(0.02), c.Places(), c.Width)
}
