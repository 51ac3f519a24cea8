// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/resample"
	"github.com/wepe-go/wepe/internal/weight"
)

// relativePositions are MViTv2's decomposed ones (https://arxiv.org/abs/2112.01526), in every block of ViTDet: they add
// to the score of a key
//
//	q·R[row of q - row of k] + q·C[column of q - column of k]
//
// with tables R and C of one vector for each offset, initially zero. The query is not divided by √headDim here.
type relativePositions struct {
	rows, cols         int // of the tokens in one attention
	rowTable, colTable *model.Variable
}

// newRelativePositions creates tables for a grid of tableRows × tableCols.
func newRelativePositions(scope *model.Scope, rows, cols, tableRows, tableCols, headDim int) relativePositions {
	table := func(name string, n int) *model.Variable {
		return weight.Float32(scope, name, weight.Constant(0), 2*n-1, headDim)
	}
	return relativePositions{rows, cols, table("rows", tableRows), table("cols", tableCols)}
}

// scores returns the scores of queries [batch, rows·cols, heads, headDim], float32 [batch, heads, rows·cols,
// rows·cols].
func (r relativePositions) scores(q *Node) *Node {
	g, d := q.Graph(), q.Shape().Dimensions
	q = Reshape(ConvertDType(q, r.rowTable.DType()), d[0], r.rows, r.cols, d[2], d[3])
	// All queries of a row, or of a column, use the same vectors: one product each. [n, batch, heads, ·, headDim] -> [n,
	// batch, heads, ·, n]
	along := func(q *Node, table *model.Variable, n int) *Node {
		dims := q.Shape().Dimensions
		vectors := relativeVectors(table.NodeValue(g), n, n) // [query, key, headDim]
		scores := kernel.Product(Reshape(q, n, -1, d[3]), Transpose(vectors, 1, 2))
		return Reshape(scores, n, dims[1], dims[2], dims[3], n)
	}
	ofRow := along(TransposeAllAxes(q, 1, 0, 3, 2, 4), r.rowTable, r.rows) // [rows, batch, heads, cols, rows]
	ofCol := along(TransposeAllAxes(q, 2, 0, 3, 1, 4), r.colTable, r.cols) // [cols, batch, heads, rows, cols]
	ofRow = InsertAxes(TransposeAllAxes(ofRow, 1, 2, 0, 3, 4), -1)         // [batch, heads, rows, cols, rows, 1]
	ofCol = InsertAxes(TransposeAllAxes(ofCol, 1, 2, 3, 0, 4), -2)         // [batch, heads, rows, cols, 1, cols]
	return Reshape(Add(ofRow, ofCol), d[0], d[2], d[1], d[1])
}

// relativeVectors selects the vector of each key's offset from each query along one side from a table [length,
// headDim]: [queries, keys, headDim]. Row 0 is the key farthest behind. If the numbers of queries and keys differ, the
// smaller side is spread over the larger; a table of another length is resampled linearly.
func relativeVectors(table *Node, queries, keys int) *Node {
	most := 2*max(queries, keys) - 1
	table = resample.Axis(table, resample.Linear, most)
	index := make([]int64, 0, queries*keys)
	spreadQ, spreadK := max(float64(keys)/float64(queries), 1), max(float64(queries)/float64(keys), 1)
	for q := range queries {
		for k := range keys {
			index = append(index, int64(float64(q)*spreadQ-float64(k)*spreadK+float64(keys-1)*spreadK))
		}
	}
	return Reshape(additive.Rows(table, Const(table.Graph(), index)), queries, keys, -1)
}
