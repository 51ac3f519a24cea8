// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/kernel"
)

// windows cut a grid of patches into squares, from the top left. If the grid does not divide, zeros pad it at the
// bottom and at the right. They are tokens like others: with the biases of the projections for key and value, they take
// part in the softmax, as in ViTDet, which does not mask them.
type windows struct{ rows, cols, side int }

// down and across return the number of windows.
func (w windows) down() int   { return (w.rows + w.side - 1) / w.side }
func (w windows) across() int { return (w.cols + w.side - 1) / w.side }

// padded reports whether some windows extend beyond the grid.
func (w windows) padded() bool { return w.rows%w.side != 0 || w.cols%w.side != 0 }

// cut is [batch, rows·cols, width] -> [batch·windows, side², width], the windows of an image row by row.
func (w windows) cut(x *Node) *Node {
	width := x.Shape().Dim(-1)
	x = Reshape(x, -1, w.rows, w.cols, width)
	x = kernel.ZeroPad(x, 1, 0, w.down()*w.side-w.rows)
	x = kernel.ZeroPad(x, 2, 0, w.across()*w.side-w.cols)
	x = Reshape(x, -1, w.down(), w.side, w.across(), w.side, width)
	x = TransposeAllAxes(x, 0, 1, 3, 2, 4, 5) // [batch, down, across, side, side, width]
	return Reshape(x, -1, w.side*w.side, width)
}

// join is the inverse of cut; padding is dropped.
func (w windows) join(x *Node) *Node {
	width := x.Shape().Dim(-1)
	x = Reshape(x, -1, w.down(), w.across(), w.side, w.side, width)
	x = TransposeAllAxes(x, 0, 1, 3, 2, 4, 5) // [batch, down, side, across, side, width]
	x = Reshape(x, -1, w.down()*w.side, w.across()*w.side, width)
	x = kernel.Crop(kernel.Crop(x, 1, 0, w.rows), 2, 0, w.cols)
	return Reshape(x, -1, w.rows*w.cols, width)
}

// tokens numbers the patches of each window, row by row from first on; padding is 0.
func (w windows) tokens(first int) [][]int64 {
	sets := make([][]int64, w.down()*w.across())
	for i := range sets {
		top, left := i/w.across()*w.side, i%w.across()*w.side
		for row := top; row < top+w.side; row++ {
			for col := left; col < left+w.side; col++ {
				token := 0
				if row < w.rows && col < w.cols {
					token = first + row*w.cols + col
				}
				sets[i] = append(sets[i], int64(token))
			}
		}
	}
	return sets
}
