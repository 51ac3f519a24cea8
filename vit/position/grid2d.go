// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"cmp"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

// Hyperparameters of grid2d.
const (
	ParamGrid2DRows   = "grid2d_rows"   // rows of the table, those of training; 0, the default, for the model's own
	ParamGrid2DCols   = "grid2d_cols"   // columns of the table, those of training; 0, the default, for the model's own
	ParamGrid2DKernel = "grid2d_kernel" // its interpolation for another grid: "bilinear" (default) or "bicubic" (ViTDet)
)

var grid2DGrid = trainedGrid{ParamGrid2DRows, ParamGrid2DCols}

// newGrid2D is a learned table with its own grid, [rows, cols, width], and a vector for each prefix token, all N(0,
// 0.02²) at the start: the "2-D grid" baseline of the WePE paper, which in the released code has as many parameters as
// a learned table. On its training grid it equals "learned". On another grid the graph resamples the table with torch's
// bilinear or bicubic kernel (half-pixel centres, clamped at the border, no antialias), so that the same parameters
// train at every resolution.
func newGrid2D(scope *model.Scope, c Config) Encoder {
	var rows, cols int
	kernel := "bilinear"
	readSettings(scope, append(grid2DGrid.settings(&rows, &cols),
		setting.Choice(ParamGrid2DKernel, &kernel, "what the table is resampled with", "bilinear", "bicubic")))
	along := map[string]func(distance float64) float64{"bilinear": resample.Linear, "bicubic": resample.TorchCubic}[kernel]
	rows, cols = cmp.Or(rows, c.Rows), cmp.Or(cols, c.Cols)
	scope = scope.At("grid2d")
	patches := weight.Float32(scope, "table", weight.Normal(0.02), rows, cols, c.Width)
	var prefix *model.Variable
	if c.placed() > 0 {
		prefix = weight.Float32(scope, "prefix", weight.Normal(0.02), c.placed(), c.Width)
	}
	return &table{name: "grid2d", rows: func(g *Graph) *Node {
		x := resample.Table(patches.NodeValue(g), along, c.Rows, c.Cols) // [Rows·Cols, width]
		if prefix == nil {
			return x
		}
		return Concatenate([]*Node{prefix.NodeValue(g), x}, 0)
	}}
}
