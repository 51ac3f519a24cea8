// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"
)

// grid says which tokens an encoder serves: prefix tokens, then patches row by row, each a vector of the given width.
type grid struct{ rows, cols, prefix, width int }

// validate panics, naming the sizes, on a grid without patches.
func (l grid) validate() {
	if l.rows < 1 || l.cols < 1 || l.width < 1 || l.prefix < 0 {
		exceptions.Panicf("wepe: grid %d×%d, width %d, prefix %d: want at least 1×1, 1, 0", l.rows, l.cols, l.width,
			l.prefix)
	}
}

// positions is the length of the sequence.
func (l grid) positions() int { return l.prefix + l.rows*l.cols }

// centre returns the centre of patch k in (0, 1)², mathematics.md (6.1).
func (l grid) centre(k int) (u, v float64) {
	return (float64(k%l.cols) + 0.5) / float64(l.cols), (float64(k/l.cols) + 0.5) / float64(l.rows)
}

// add returns x plus rows of encoding [positions, width], as Encoder.PreEncode documents.
func (l grid) add(encoding, x, positionIndices *Node, seqAxis int) *Node {
	axis := seqAxis
	if axis < 0 {
		axis += x.Rank()
	}
	dims := x.Shape().Dimensions
	if axis < 0 || axis >= x.Rank()-1 || dims[x.Rank()-1] != l.width {
		exceptions.Panicf("wepe: tokens %s with the sequence at axis %d, want [..., seq, ..., %d]", x.Shape(), seqAxis,
			l.width)
	}
	lead := 0 // axes of x in front of the sequence that the added rows have too
	rows := ConvertDType(encoding, x.DType())
	switch {
	case positionIndices == nil || l.isWholeRange(positionIndices):
		if dims[axis] != l.positions() {
			exceptions.Panicf("wepe: %d tokens in %s for %d positions (grid %d×%d, prefix %d): give positionIndices",
				dims[axis], x.Shape(), l.positions(), l.rows, l.cols, l.prefix)
		}
	case positionIndices.Rank() == 1 && slices.Equal(positionIndices.Shape().Dimensions, dims[axis:axis+1]):
		rows = gatherRows(rows, positionIndices)
	case slices.Equal(positionIndices.Shape().Dimensions, dims[:axis+1]):
		rows, lead = gatherRows(rows, positionIndices), axis
	default:
		exceptions.Panicf("wepe: positionIndices %s for tokens %s with the sequence at axis %d",
			positionIndices.Shape(), x.Shape(), seqAxis)
	}
	shape := make([]int, x.Rank())
	for i := range shape {
		shape[i] = 1
	}
	copy(shape, dims[:lead])
	shape[axis], shape[x.Rank()-1] = dims[axis], l.width
	return Add(x, Reshape(rows, shape...))
}

// isWholeRange recognises 0, 1, …, positions - 1 as Iota makes them.
func (l grid) isWholeRange(indices *Node) bool {
	return indices.Type() == NodeTypeIota && slices.Equal(indices.Shape().Dimensions, []int{l.positions()})
}

// gatherRows picks rows of the table [n, width] by indices [...]: [..., width]. The indices become int64, the type
// whose gather has a gradient on every backend.
func gatherRows(table, indices *Node) *Node {
	return Gather(table, InsertAxes(ConvertDType(indices, dtypes.Int64), -1))
}
