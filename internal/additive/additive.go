// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package additive implements PreEncode of position encodings that have one row per position: it adds the rows to the
// tokens.
package additive

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/kernel"
)

// PreEncode returns x plus rows of encoding [positions, width], in x's shape and dtype.
//
// x is [..., seq, ..., width] with the sequence at seqAxis and the width last. With positionIndices nil, or an Iota
// over all positions, the sequence has all of them in order and nothing is gathered. Otherwise positionIndices,
// integers in [0, positions), is the position of each token: [seq], or one row per batch element, shaped as the axes of
// x up to seqAxis. So subsets and permutations of the patches keep their positions.
func PreEncode(encoding, x, positionIndices *Node, seqAxis int) *Node {
	positions, width := encoding.Shape().Dim(0), encoding.Shape().Dim(1)
	axis := seqAxis
	if axis < 0 {
		axis += x.Rank()
	}
	dims := x.Shape().Dimensions
	if axis < 0 || axis >= x.Rank()-1 || dims[x.Rank()-1] != width {
		exceptions.Panicf("tokens %s with the sequence at axis %d, want [..., seq, ..., %d]", x.Shape(), seqAxis, width)
	}
	lead, rows := 0, encoding // lead: axes of x in front of the sequence that the rows have too
	whole := positionIndices == nil || positionIndices.Type() == NodeTypeIota &&
		slices.Equal(positionIndices.Shape().Dimensions, []int{positions}) // 0, 1, …, positions - 1
	switch {
	case whole:
		if dims[axis] != positions {
			exceptions.Panicf("%d tokens in %s for %d positions: give positionIndices", dims[axis], x.Shape(), positions)
		}
	case positionIndices.Rank() == 1 && slices.Equal(positionIndices.Shape().Dimensions, dims[axis:axis+1]):
		rows = Rows(rows, positionIndices)
	case slices.Equal(positionIndices.Shape().Dimensions, dims[:axis+1]):
		rows, lead = Rows(rows, positionIndices), axis
	default:
		exceptions.Panicf("positionIndices %s for tokens %s with the sequence at axis %d", positionIndices.Shape(), x.Shape(),
			seqAxis)
	}
	shape := slices.Repeat([]int{1}, x.Rank())
	copy(shape, dims[:lead])
	shape[axis], shape[x.Rank()-1] = dims[axis], width
	return kernel.AddRows(x, Reshape(rows, shape...))
}

// Rows gathers rows of the table [n, width] by indices [...]: [..., width]. The indices become int64, the type whose
// gather has a gradient on every backend.
func Rows(table, indices *Node) *Node {
	return Gather(table, InsertAxes(ConvertDType(indices, dtypes.Int64), -1))
}

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
