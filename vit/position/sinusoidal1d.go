// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// newSinusoidal1D is the fixed table of the Transformer (https://arxiv.org/abs/1706.03762, 3.5) over the position p of
// a token in the sequence, a constant of the graph:
//
//	PE[p, 2j] = sin(p·10000^(-2j/width)),   PE[p, 2j+1] = cos(p·10000^(-2j/width))
//
// Patches are counted row by row; the patch below is Cols positions later. The class token is p = 0, and the patches
// begin at p = 1; without a class token they begin at 0. On another grid the table is computed again for its positions.
func newSinusoidal1D(_ *model.Scope, c Config) Encoder {
	flat := make([]float32, c.Positions()*c.Width)
	for p := range c.Positions() {
		for i := range c.Width {
			angle := float64(p) * math.Pow(10000, -float64(i-i%2)/float64(c.Width))
			value := math.Sin(angle)
			if i%2 == 1 {
				value = math.Cos(angle)
			}
			flat[p*c.Width+i] = float32(value)
		}
	}
	rows := tensors.FromFlatDataAndDimensions(flat, c.Positions(), c.Width)
	return &table{name: "sinusoidal1d", rows: func(g *Graph) *Node { return Const(g, rows) }}
}
