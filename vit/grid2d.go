// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"cmp"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

// Hyperparameters of grid2d.
const (
	// paramGrid2DRows and paramGrid2DCols are the rows and columns of the table of grid2d, the grid of patches that it was
	// trained on, >= 1. Default 0, the model's own.
	paramGrid2DRows = "grid2d_rows"
	paramGrid2DCols = "grid2d_cols"

	// ParamGrid2DKernel is what the table is resampled with, "bilinear" (default) or "bicubic" (ViTDet).
	ParamGrid2DKernel = "grid2d_kernel"
)

// newGrid2D is a learned table that knows its grid, [rows, cols, width], and a vector for each prefix token, all
// N(0, 0.02²) at the start: the "2-D grid" that the WePE paper compares with, whose released code has as many
// parameters as a learned table. On the grid it was trained on it is "learned" by another name. On another one the
// graph resamples the table, with torch's bilinear or bicubic kernel (half-pixel centres, clamped at the border, no
// antialias), so that the same parameters serve and train at every resolution: paramGrid2DRows and paramGrid2DCols say
// what the table's own grid is.
func newGrid2D(scope *model.Scope, c Config) Additive {
	var rows, cols int
	kernel := "bilinear"
	readSettings(scope, []setting.Row{
		setting.Number(paramGrid2DRows, &rows, 0, maxSide, "the rows of patches in training; 0 for the model's own"),
		setting.Number(paramGrid2DCols, &cols, 0, maxSide, "the columns of patches in training; 0 for the model's own"),
		setting.Choice(ParamGrid2DKernel, &kernel, "what the table is resampled with", "bilinear", "bicubic"),
	})
	along := map[string]func(distance float64) float64{"bilinear": additive.Linear, "bicubic": additive.Cubic}[kernel]
	rows, cols = cmp.Or(rows, c.Rows()), cmp.Or(cols, c.Cols())
	scope = scope.At("grid2d")
	patches := weight.Float32(scope, "table", weight.Normal(0.02), rows, cols, c.Width)
	var prefix *model.Variable
	if c.PrefixPositions() > 0 {
		prefix = weight.Float32(scope, "prefix", weight.Normal(0.02), c.PrefixPositions(), c.Width)
	}
	return &table{name: "grid2d", rows: func(g *Graph) *Node {
		x := resampled(patches.NodeValue(g), along, c)
		if prefix == nil {
			return x
		}
		return Concatenate([]*Node{prefix.NodeValue(g), x}, 0)
	}}
}

// resampled takes a table [rows, cols, width] of any grid to that of c, [Rows·Cols, width].
func resampled(x *Node, along func(distance float64) float64, c Config) *Node {
	x = additive.Resample(x, along, c.Rows(), c.Rows())                            // [Rows, cols, width]
	x = additive.Resample(TransposeAllAxes(x, 1, 0, 2), along, c.Cols(), c.Cols()) // [Cols, Rows, width]
	return Reshape(TransposeAllAxes(x, 1, 0, 2), c.Rows()*c.Cols(), c.Width)       // row by row
}

// grid2dParameters counts the default form.
func grid2dParameters(c Config) int { return c.Positions() * c.Width }

func grid2dTrainedGrid(c Config) map[string]any {
	return map[string]any{paramGrid2DRows: c.Rows(), paramGrid2DCols: c.Cols()}
}

// maxSide bounds the patches along a side that a table may have been trained on.
const maxSide = 1 << 14
