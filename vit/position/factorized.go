// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

// Hyperparameters of factorized.
const (
	ParamFactorizedRows = "factorized_rows" // rows of patches in training; 0, the default, for the model's own
	ParamFactorizedCols = "factorized_cols" // columns of patches in training; 0, the default, for the model's own
)

var factorizedGrid = trainedGrid{ParamFactorizedRows, ParamFactorizedCols}

// newFactorized is the factorised table of NaViT (https://arxiv.org/abs/2307.06304) as in timm's NaFlexViT: a vector
// for each row and one for each column of the grid, both N(0, 0.02²) at the start. A patch gets their sum, a prefix
// token nothing.
//
// On another grid the tables are resampled along their length, as in grid2d: linearly between half-pixel centres,
// clamped at the ends, without antialias.
func newFactorized(scope *model.Scope, c Config) Encoder {
	var rows, cols int
	aspect := false
	readSettings(scope, append(factorizedGrid.settings(&rows, &cols), setting.Internal(setting.Switch("factorized_aspect",
		&aspect, "whether both tables are stretched to the longer side, and that of the shorter one is cut"))...))
	scope = scope.At("factorized")
	ofRow := weight.Float32(scope, "rows", weight.Normal(0.02), cmp.Or(rows, c.Rows), c.Width)
	ofCol := weight.Float32(scope, "cols", weight.Normal(0.02), cmp.Or(cols, c.Cols), c.Width)
	toRows, toCols := c.Rows, c.Cols
	if aspect {
		toRows = max(c.Rows, c.Cols)
		toCols = toRows
	}
	return &table{name: "factorized", rows: func(g *Graph) *Node {
		y := InsertAxes(resample.Axis(ofRow.NodeValue(g), resample.Linear, toRows, c.Rows), 1) // [Rows, 1, width]
		x := InsertAxes(resample.Axis(ofCol.NodeValue(g), resample.Linear, toCols, c.Cols), 0) // [1, Cols, width]
		sum := Reshape(Add(y, x), c.Rows*c.Cols, c.Width)
		if c.placed() == 0 {
			return sum
		}
		return Concatenate([]*Node{Zeros(g, shapes.Make(dtypes.Float32, c.placed(), c.Width)), sum}, 0)
	}}
}
