// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/weight"
)

// Hyperparameters of grid2d.
const (
	// ParamGrid2DRows and ParamGrid2DCols are the rows and columns of the table of grid2d, the grid of patches that it was
	// trained on, >= 1. Default 0, the model's own.
	ParamGrid2DRows = "grid2d_rows"
	ParamGrid2DCols = "grid2d_cols"
)

// newGrid2D is a learned table that knows its grid, [rows, cols, width], and a vector for each prefix token, all
// N(0, 0.02²) at the start: the "2-D grid" that the WePE paper compares with, whose released code has as many
// parameters as a learned table. On the grid it was trained on it is "learned" by another name. On another one the
// graph resamples the table, with torch's bilinear kernel (half-pixel centres, clamped at the border), so that the same
// parameters serve and train at every resolution: ParamGrid2DRows and ParamGrid2DCols say what the table's own grid is.
func newGrid2D(scope *model.Scope, c Config) Additive {
	side := func(param string, own int) int {
		n := model.GetParamOr(scope, param, 0)
		if n < 0 || n > 1<<14 {
			exceptions.Panicf("vit: %s = %d, want the number of patches along that side in training, or 0", param, n)
		}
		return cmp.Or(n, own)
	}
	rows, cols := side(ParamGrid2DRows, c.Rows()), side(ParamGrid2DCols, c.Cols())
	scope = scope.At("grid2d")
	patches := weight.Float32(scope, "table", weight.Normal(0.02), rows, cols, c.Width)
	var prefix *model.Variable
	if c.Prefix() > 0 {
		prefix = weight.Float32(scope, "prefix", weight.Normal(0.02), c.Prefix(), c.Width)
	}
	return &table{name: "grid2d", rows: func(g *Graph) *Node {
		x := bilinearRows(patches.NodeValue(g), c.Rows())                                   // [Rows, cols, width]
		x = TransposeAllAxes(bilinearRows(TransposeAllAxes(x, 1, 0, 2), c.Cols()), 1, 0, 2) // [Rows, Cols, width]
		x = Reshape(x, c.Rows()*c.Cols(), c.Width)
		if prefix == nil {
			return x
		}
		return Concatenate([]*Node{prefix.NodeValue(g), x}, 0)
	}}
}

// grid2dParameters counts the default form.
func grid2dParameters(c Config) int { return c.Tokens() * c.Width }

func grid2dTrainedGrid(c Config) map[string]any {
	return map[string]any{ParamGrid2DRows: c.Rows(), ParamGrid2DCols: c.Cols()}
}

// bilinearRows resamples the first axis of x [n, k, width] to m places, [m, k, width], by a product with constant
// weights: it has a gradient on every backend, which Interpolate has not.
func bilinearRows(x *Node, m int) *Node {
	d := x.Shape().Dimensions
	n := d[0]
	if n == m {
		return x
	}
	weights := make([]float32, m*n)
	for i := range m {
		centre := (float64(i)+0.5)*float64(n)/float64(m) - 0.5
		before := math.Floor(centre)
		for k, w := range []float64{before + 1 - centre, centre - before} {
			place := min(max(int(before)+k, 0), n-1)
			weights[i*n+place] += float32(w)
		}
	}
	y := MatMul(Reshape(Const(x.Graph(), weights), m, n), Reshape(x, n, d[1]*d[2]))
	return Reshape(y, m, d[1], d[2])
}
