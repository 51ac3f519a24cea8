// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package additive

import "github.com/gomlx/gomlx/core/tensors"

// Offset is the offset of one patch of a grid from another, in patches.
type Offset struct{ Rows, Cols int }

// Offsets lists every offset of one patch from another: rows from -(rows-1) to rows-1, columns likewise, the column
// running fastest.
func Offsets(rows, cols int) []Offset {
	all := make([]Offset, 0, (2*rows-1)*(2*cols-1))
	for row := 1 - rows; row < rows; row++ {
		for col := 1 - cols; col < cols; col++ {
			all = append(all, Offset{row, col})
		}
	}
	return all
}

// Pairs returns the index into Offsets of each pair of a query and a key, int64 [tokens, tokens]; for prefix tokens,
// which have no position, one past the last.
func Pairs(rows, cols, prefix int) *tensors.Tensor {
	tokens, width := prefix+rows*cols, 2*cols-1
	none := (2*rows - 1) * width
	indices := make([]int64, 0, tokens*tokens)
	for query := -prefix; query < rows*cols; query++ {
		for key := -prefix; key < rows*cols; key++ {
			index := none
			if query >= 0 && key >= 0 {
				index = (key/cols-query/cols+rows-1)*width + key%cols - query%cols + cols - 1
			}
			indices = append(indices, int64(index))
		}
	}
	return tensors.FromFlatDataAndDimensions(indices, tokens, tokens)
}
