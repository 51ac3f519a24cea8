// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/weight"
)

const factorizedGrid = trainedGrid("factorized")

// newFactorized is the factorised table of NaViT (https://arxiv.org/abs/2307.06304) as in timm's NaFlexViT: a vector
// for each row and one for each column of the grid, both N(0, 0.02²) at the start. A patch gets their sum, a prefix
// token nothing.
//
// On another grid the tables are resampled along their length, as in grid2d: linearly between half-pixel centres,
// clamped at the ends, without antialias.
func newFactorized(scope *model.Scope, c Config) Encoder {
	rows, cols := factorizedGrid.read(scope, c)
	scope = scope.At("factorized")
	ofRow := weight.Float32(scope, "rows", weight.Normal(0.02), rows, c.Width)
	ofCol := weight.Float32(scope, "cols", weight.Normal(0.02), cols, c.Width)
	return &table{name: "factorized", rows: func(g *Graph) *Node {
		y := InsertAxes(resample.Axis(ofRow.NodeValue(g), resample.Linear, c.Rows), 1) // [Rows, 1, width]
		x := InsertAxes(resample.Axis(ofCol.NodeValue(g), resample.Linear, c.Cols), 0) // [1, Cols, width]
		sum := Reshape(Add(y, x), c.Rows*c.Cols, c.Width)
		if c.placed() == 0 {
			return sum
		}
		return Concatenate([]*Node{Zeros(g, shapes.Make(dtypes.Float32, c.placed(), c.Width)), sum}, 0)
	}}
}
