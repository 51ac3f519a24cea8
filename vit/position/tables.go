// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

// table is an additive encoding with one row per token.
type table struct {
	name string
	rows func(g *Graph) *Node // float32 [tokens, width]
}

func (t *table) Name() string { return t.name }

// Encode implements Adder.
func (t *table) Encode(g *Graph) *Node { return t.rows(g) }

// PreEncode implements pos.PreEncoder: x + rows. The indices are the rows of the tokens of x, nil for all in order.
func (t *table) PreEncode(x, positionIndices *Node, seqAxis int) *Node {
	return additive.PreEncode(t.rows(x.Graph()), x, positionIndices, seqAxis)
}

// newLearned is a learned vector for each token, prefix included (ViT's APE, https://arxiv.org/abs/2010.11929), N(0,
// 0.02²) at the start. Its rows belong to one grid and are resampled for another one. Code bases differ in how:
// checkpoints.Resample has their methods, and an import uses the method of its origin.
func newLearned(scope *model.Scope, c Config) Encoder {
	v := learnedRows(scope, c)
	return &learnedTable{table{name: learned, rows: func(g *Graph) *Node { return v.NodeValue(g) }}, c}
}

type learnedTable struct {
	table
	c Config
}

// on is the table on another grid: the rows of the patches are resampled as SigLIP 2 does, torch's bilinear kernel with
// antialias.
func (l *learnedTable) on(grid Grid) Encoder {
	c, kept := l.c, l.c.placed()
	return &table{name: learned, rows: func(g *Graph) *Node {
		rows := l.Encode(g)
		patches := Reshape(kernel.Crop(rows, 0, kept, c.Positions()), c.Rows, c.Cols, c.Width)
		x := resample.Table(patches, resample.Antialiased, grid.Rows, grid.Cols)
		if kept == 0 {
			return x
		}
		return Concatenate([]*Node{kernel.Crop(rows, 0, 0, kept), x}, 0)
	}}
}

// TableName is the variable of position "learned", which other formats have too.
const TableName = "embedding"

const learned = "learned"

func learnedRows(scope *model.Scope, c Config) *model.Variable {
	return weight.Float32(scope, TableName, weight.Normal(0.02), c.Positions(), c.Width)
}

const grid2DGrid = trainedGrid("grid2d")

// newGrid2D is a learned table with its own grid, [rows, cols, width], and a vector for each prefix token, all N(0,
// 0.02²) at the start: the "2-D grid" baseline of the WePE paper, which in the released code has as many parameters as
// a learned table. On its training grid it equals "learned". On another grid the graph resamples the table with torch's
// bilinear or bicubic kernel (half-pixel centres, clamped at the border, no antialias), so that the same parameters
// train at every resolution.
func newGrid2D(scope *model.Scope, c Config) Encoder {
	rows, cols := grid2DGrid.read(scope, c)
	interpolation := "bilinear"
	readSettings(scope, setting.Choice(ParamGrid2DKernel, &interpolation, "what the table is resampled with", "bilinear",
		"bicubic"))
	taps := map[string]func(n, m int) []resample.Taps{"bilinear": resample.Bilinear, "bicubic": resample.Bicubic}
	return &table{name: "grid2d", rows: gridTable(scope.At("grid2d"), c, rows, cols, taps[interpolation])}
}

// gridTable creates "table" [rows, cols, width] and, for the prefix tokens with a position, "prefix", all N(0, 0.02²)
// at the start. The function returns [Positions, width], the table resampled to the grid of c.
func gridTable(scope *model.Scope, c Config, rows, cols int, taps func(n, m int) []resample.Taps) func(*Graph) *Node {
	patches := weight.Float32(scope, "table", weight.Normal(0.02), rows, cols, c.Width)
	var prefix *model.Variable
	if c.placed() > 0 {
		prefix = weight.Float32(scope, "prefix", weight.Normal(0.02), c.placed(), c.Width)
	}
	return func(g *Graph) *Node {
		x := resample.Table(patches.NodeValue(g), taps, c.Rows, c.Cols) // [Rows·Cols, width]
		if prefix == nil {
			return x
		}
		return Concatenate([]*Node{prefix.NodeValue(g), x}, 0)
	}
}

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
		y := InsertAxes(resample.Axis(ofRow.NodeValue(g), resample.Bilinear, c.Rows), 1) // [Rows, 1, width]
		x := InsertAxes(resample.Axis(ofCol.NodeValue(g), resample.Bilinear, c.Cols), 0) // [1, Cols, width]
		sum := Reshape(Add(y, x), c.Rows*c.Cols, c.Width)
		if c.placed() == 0 {
			return sum
		}
		return Concatenate([]*Node{Zeros(g, shapes.Make(dtypes.Float32, c.placed(), c.Width)), sum}, 0)
	}}
}
