// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// grid numbers the cells of a feature map row by row: a map is [rows·cols, batch, channels].
type grid struct{ rows, cols int }

// cell returns the index of a cell; outside the map, the index of the zero cell that padded appends.
func (m grid) cell(row, col int) int64 {
	if row < 0 || row >= m.rows || col < 0 || col >= m.cols {
		return int64(m.rows * m.cols)
	}
	return int64(row*m.cols + col)
}

// padded appends the zero cell to x: [rows·cols+1, batch, channels].
func padded(x *Node) *Node {
	d := x.Shape().Dimensions
	return Concatenate([]*Node{x, Zeros(x.Graph(), shapes.Make(x.DType(), 1, d[1], d[2]))}, 0)
}

// shift moves x, [rows·cols, batch, channels], so that each cell gets the value down rows below and right columns to
// the right of it, zero outside the map.
func (m grid) shift(x *Node, down, right int) *Node {
	if down == 0 && right == 0 {
		return x
	}
	index := make([][]int64, 0, m.rows*m.cols)
	for row := range m.rows {
		for col := range m.cols {
			index = append(index, []int64{m.cell(row+down, col+right)})
		}
	}
	return Gather(padded(x), Const(x.Graph(), index))
}

// windows returns the 3×3 windows around every second cell of every second row of x: [9, rows/2·cols/2, batch,
// channels] of [rows·cols, batch, channels], the nine row by row.
func (m grid) windows(x *Node) *Node {
	index := make([][][]int64, 9)
	for k := range index {
		for row := 0; row < m.rows; row += 2 {
			for col := 0; col < m.cols; col += 2 {
				index[k] = append(index[k], []int64{m.cell(row+k/3-1, col+k%3-1)})
			}
		}
	}
	return Gather(padded(x), Const(x.Graph(), index))
}
