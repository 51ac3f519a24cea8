// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/additive"
)

// covered returns how many training patches each patch of a grid covers, down and across: ⌈trained rows/rows⌉ and
// ⌈trained cols/cols⌉ on a grid coarser than the training grid, otherwise 1 and 1.
func (c Config) covered(grid [2]int) (down, across int) {
	return max(1, (c.trainedRows+grid[0]-1)/grid[0]), max(1, (c.trainedCols+grid[1]-1)/grid[1])
}

// denser is c with each patch of the grids split into the training patches that it covers.
func (c Config) denser(grids [][2]int) Config {
	split := make([][2]int, len(grids))
	for i, grid := range grids {
		down, across := c.covered(grid)
		split[i] = [2]int{grid[0] * down, grid[1] * across}
	}
	c.grids, c.undivided = split, grids
	return c
}

// means averages the rows of the denser grids, [Σ rows·down·cols·across, width], over each patch: [Σ rows·cols, width],
// mathematics.md (6.11).
func (c Config) means(rows *Node, grids [][2]int) *Node {
	most, patches := 1, 0
	for _, grid := range grids {
		down, across := c.covered(grid)
		most, patches = max(most, down*across), patches+grid[0]*grid[1]
	}
	if most == 1 {
		return rows
	}
	at, weights := make([]int64, 0, patches*most), make([]float64, 0, patches*most) // unused entries have weight 0
	start := 0
	for _, grid := range grids {
		down, across := c.covered(grid)
		for k := range grid[0] * grid[1] {
			row, col := k/grid[1]*down, k%grid[1]*across
			for i := range most {
				if i < down*across {
					at = append(at, int64(start+(row+i/across)*grid[1]*across+col+i%across))
					weights = append(weights, 1/float64(down*across))
				} else {
					at, weights = append(at, 0), append(weights, 0)
				}
			}
		}
		start += grid[0] * down * grid[1] * across
	}
	g := rows.Graph()
	covered := additive.Rows(rows, Reshape(Const(g, at), patches, most)) // [Σ rows·cols, most, width]
	return ReduceSum(Mul(covered, Reshape(ConstAsDType(g, rows.DType(), weights), patches, most, 1)), 1)
}

// moved returns z of the patches, [views·patches], all shifted by one random step of up to ±shift patches along each
// axis: mathematics.md (6.12). With span 1 this is a translation of the torus.
func (l *lattice) moved(v view) ComplexNode {
	c, g := l.config, v.z.Re.Graph()
	var right, down []float64 // the sides of a patch in periods, once for each
	for i, grid := range c.several() {
		patches := grid
		if c.undivided != nil {
			patches = c.undivided[i]
		}
		for range grid[0] * grid[1] {
			right = append(right, c.shift*c.alphaU/float64(patches[1]))
			down = append(down, c.shift*c.alphaV/float64(patches[0]))
		}
	}
	right, down = c.scaled(right), c.scaled(down)
	none := make([]float64, len(right))
	step := func() *Node { // in ±1
		return AddScalar(MulScalar(c.scope.RandomUniform(g, shapes.Make(dtypes.Float32)), 2), -1)
	}
	return v.z.Add(l.points(v.omega3, right, none).Times(step())).Add(l.points(v.omega3, none, down).Times(step()))
}
