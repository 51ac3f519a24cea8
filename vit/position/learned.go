// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

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
// antialias, by a product with constant weights.
func (l *learnedTable) on(grid Grid) Encoder {
	c, first := l.c, l.c.placed() // rows that are kept
	var weights []float32         // [grid.Positions, Positions]
	line := func() []float32 {
		weights = append(weights, make([]float32, c.Positions())...)
		return weights[len(weights)-c.Positions():]
	}
	for i := range first {
		line()[i] = 1
	}
	down, across := hats(c.Rows, grid.Rows), hats(c.Cols, grid.Cols)
	for _, ofRows := range down {
		for _, ofCols := range across {
			for k, out := 0, line()[first:]; k < len(out); k++ {
				out[k] = float32(ofRows[k/c.Cols] * ofCols[k%c.Cols])
			}
		}
	}
	return &table{name: learned, rows: func(g *Graph) *Node {
		return MatMul(Reshape(Const(g, weights), -1, c.Positions()), l.Encode(g))
	}}
}

// hats returns the weights of n positions for each of m along an axis: 1-|x| around the centre of the new position, x
// in old positions or, if there are more new ones, in new positions; they sum to 1.
func hats(n, m int) [][]float64 {
	ratio := float64(n) / float64(m)
	weights := make([][]float64, m)
	for i := range weights {
		total := 0.0
		for place := range n {
			x := (float64(place) + 0.5 - (float64(i)+0.5)*ratio) / max(1, ratio)
			weights[i] = append(weights[i], max(0, 1-math.Abs(x)))
			total += weights[i][place]
		}
		for place := range n {
			weights[i][place] /= total
		}
	}
	return weights
}

// TableName is the variable of position "learned", which other formats have too.
const TableName = "embedding"

const learned = "learned"

func learnedRows(scope *model.Scope, c Config) *model.Variable {
	return weight.Float32(scope, TableName, weight.Normal(0.02), c.Positions(), c.Width)
}
