// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/wepe"
)

// newWePEResidual is a learned table that begins as a function of the place, f·W + Δ: f the sphere features of a patch,
// [rows·cols, 12], W [12, width] and Δ, a free vector for each token, all trained. W is N(0, 0.02²) at the start, the
// spread of a learned table, and Δ is 0, but for the prefix, which has Δ alone, N(0, 0.02²). There is no LayerNorm and
// no factor: those of wepe-sphere hold its rows at four times the length that learned ones come to.
//
// On another grid f is computed anew and Δ is resampled as grid2d does, bilinearly; wepe_rows and wepe_cols say what
// grid Δ is of.
func newWePEResidual(scope *model.Scope, c Config) Additive {
	scope = scope.In("wepe_residual")
	field := wepe.New(scope, c.Rows(), c.Cols(), c.Width).OnHalfCell().FromScope().Field()
	rows, cols := field.TrainedGrid()
	projection := weight.Float32(scope, "projection", weight.Normal(0.02), field.Len(), c.Width)
	residual := weight.Float32(scope, "residual", weight.Constant(0), rows, cols, c.Width)
	return withPrefix("wepe-residual", scope, c, func(g *Graph) *Node {
		x := MatMul(field.Features(g), projection.NodeValue(g)) // [Rows·Cols, width]
		return Add(x, resampled(residual.NodeValue(g), additive.Linear, c))
	})
}

// wepeResidualParameters counts the default form: a learned table, 12 features and two scalars of the lattice.
func wepeResidualParameters(c Config) int { return (c.Positions()+12)*c.Width + 2 }
