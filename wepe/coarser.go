// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// covered returns how many training patches a patch covers, down and across: ⌈trained rows/rows⌉ and ⌈trained
// cols/cols⌉ on a grid coarser than the training grid, otherwise 1 and 1.
func (c Config) covered() (down, across int) {
	return max(1, (c.trainedRows+c.rows-1)/c.rows), max(1, (c.trainedCols+c.cols-1)/c.cols)
}

// denser is the grid with each patch split into the training patches that it covers.
func (c Config) denser() grid {
	down, across := c.covered()
	return grid{rows: c.rows * down, cols: c.cols * across}
}

// means averages the rows of the denser grid, [rows·down·cols·across, n], over each patch: [rows·cols, n],
// mathematics.md (6.11).
func (c Config) means(x *Node) *Node {
	down, across := c.covered()
	if down*across == 1 {
		return x
	}
	n := x.Shape().Dim(-1)
	x = TransposeAllAxes(Reshape(x, c.rows, down, c.cols, across, n), 0, 2, 1, 3, 4)
	return ReduceSum(MulScalar(Reshape(x, c.rows*c.cols, down*across, n), 1/float64(down*across)), 1)
}

// moved returns z of points, [views·points], all shifted by one random step of up to ±shift patches along each axis:
// mathematics.md (6.12). With span 1 this is a translation of the torus.
func (l *lattice) moved(v view) ComplexNode {
	c, g, n := l.config, v.z.Re.Graph(), v.z.Re.Shape().Size()/l.config.views()
	sides := func(side float64) []float64 { return c.scaled(slices.Repeat([]float64{side}, n)) } // in periods
	right, down := sides(c.shift*c.alphaU/float64(c.cols)), sides(c.shift*c.alphaV/float64(c.rows))
	none := make([]float64, len(right))
	step := func() *Node { // in ±1
		return AddScalar(MulScalar(c.scope.RandomUniform(g, shapes.Make(dtypes.Float32)), 2), -1)
	}
	return v.z.Add(l.points(v.omega3, right, none).Times(step())).Add(l.points(v.omega3, none, down).Times(step()))
}
