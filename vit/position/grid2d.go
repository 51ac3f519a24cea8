// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

const grid2DGrid = trainedGrid("grid2d")

// newGrid2D is a learned table with its own grid, [rows, cols, width], and a vector for each prefix token, all N(0,
// 0.02²) at the start: the "2-D grid" baseline of the WePE paper, which in the released code has as many parameters as
// a learned table. On its training grid it equals "learned". On another grid the graph resamples the table with torch's
// bilinear or bicubic kernel (half-pixel centres, clamped at the border, no antialias), so that the same parameters
// train at every resolution.
func newGrid2D(scope *model.Scope, c Config) Encoder {
	rows, cols := grid2DGrid.read(scope, c)
	kernel := "bilinear"
	readSettings(scope, setting.Choice(ParamGrid2DKernel, &kernel, "what the table is resampled with", "bilinear",
		"bicubic"))
	along := map[string]func(distance float64) float64{"bilinear": resample.Linear, "bicubic": resample.TorchCubic}[kernel]
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
