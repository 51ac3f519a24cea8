// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// covered returns how many patches, down and across, each patch stands for: on a grid coarser than that of the training
// ⌈trained rows/rows⌉ and ⌈trained cols/cols⌉, on any other 1 and 1.
func (c Config) covered() (down, across int) {
	return max(1, (c.trainedRows+c.rows-1)/c.rows), max(1, (c.trainedCols+c.cols-1)/c.cols)
}

// denser is the encoder of a grid with so many patches, down and across, in the place of each.
func (e *Encoder) denser(down, across int) *Encoder {
	denser := *e
	denser.config.rows *= down
	denser.config.cols *= across
	return &denser
}

// means returns of the rows of the denser grid, [rows·down·cols·across, width], the mean of those in each patch,
// [rows·cols, width], mathematics.md (6.11).
func (c Config) means(rows *Node, down, across int) *Node {
	if down == 1 && across == 1 {
		return rows
	}
	rows = Reshape(rows, c.rows, down, c.cols, across, c.width)
	return Reshape(ReduceMean(rows, 1, 3), c.rows*c.cols, c.width)
}

// moved returns z of n points, [views·n], all moved by one random step of up to ±shift patches along each axis:
// mathematics.md (6.12). With span 1 that is a translation of the torus, which leaves the grid a grid.
func (l *lattice) moved(g *Graph, z ComplexNode, n int) ComplexNode {
	c := l.config
	patch := func(span float64, patches int) []float64 { // its side in periods, once for each point
		side := make([]float64, n)
		for i := range side {
			side[i] = c.shift * span / float64(patches)
		}
		return l.scaled(side)
	}
	right, down := patch(c.alphaU, c.cols), patch(c.alphaV, c.rows)
	none := make([]float64, len(right))
	step := func() *Node { // in ±1
		return AddScalar(MulScalar(c.scope.RandomUniform(g, shapes.Make(c.dtype)), 2), -1)
	}
	return z.add(l.points(g, right, none).times(step())).add(l.points(g, none, down).times(step()))
}
