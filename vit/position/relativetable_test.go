// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The rows are BeitRelativePositionBias.generate_relative_position_index((2, 3)) of transformers 5.23.0.
func TestRowsOfPairsAreThoseOfBEiT(t *testing.T) {
	r := relativeTable{c: Config{Grid: Grid{Rows: 2, Cols: 3, Prefix: 1}, Width: 4, Heads: 1}, rows: 2,
		cols: 3}
	want := []int64{
		17, 15, 15, 15, 15, 15, 15,
		16, 7, 6, 5, 2, 1, 0,
		16, 8, 7, 6, 3, 2, 1,
		16, 9, 8, 7, 4, 3, 2,
		16, 12, 11, 10, 7, 6, 5,
		16, 13, 12, 11, 8, 7, 6,
		16, 14, 13, 12, 9, 8, 7,
	}
	got, err := tensors.CopyFlatData[int64](r.allPairs())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// A 1×2 grid has the scores a, b, a at the offsets -1, 0, 1. A 1×3 grid has five offsets, whose places among them, with
// half-pixel centres and clamped at the border, are -0.2, 0.4, 1, 1.6 and 2.2. The same of columns.
func TestATableIsResampledLinearly(t *testing.T) {
	const a, b = 3.0, -2.0
	for _, way := range [][2][2]int{{{1, 2}, {1, 3}}, {{2, 1}, {3, 1}}} {
		trained, on := way[0], way[1]
		c := onGrid("relative-table", on[0], on[1], 1, 1)
		store := model.NewStore()
		store.SetParams(map[string]any{"relative_table_rows": trained[0], "relative_table_cols": trained[1]})
		bias := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			r, g := newRelativeTable(s, c.Config).(*relativeTable), in[0].Graph()
			r.tables[0].SetNodeValue(Const(g, [][]float32{{a}, {b}, {a}, {7}, {8}, {9}}))
			return []*Node{r.Bias(g, 0)}
		}, float32(0))[0]
		const near = 0.6*a + 0.4*b
		gomlxtest.NearAbs(t, fmt.Sprint(on), bias, []float64{b, near, a, near, b, near, a, near, b}, 1e-5)
	}
}
