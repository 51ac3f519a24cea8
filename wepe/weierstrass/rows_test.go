// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
)

type rowCount struct {
	Ratio   float64 `json:"ratio_w3p_over_w1"`
	T       float64 `json:"row_spacing_over_row_period"`
	Float32 *int    `json:"N_float32"`
	Float64 *int    `json:"N_float64"`
}

func pairsOf(ratio, epsilon float64) int {
	a, b := reducedBasis(1, complex(0, ratio))
	return newRows(a, b, epsilon).pairs
}

func TestRowPairsSufficeAndWastesAtMostOnePair(t *testing.T) {
	fixtures.Each(t, testRowPairsSufficeAndWastesAtMostOnePair)
}

func testRowPairsSufficeAndWastesAtMostOnePair(t *testing.T) {
	var file struct {
		RowCounts []rowCount `json:"row_counts"`
	}
	fixtures.JSON(t, "weierstrass", "row_sum.json", &file)
	if len(file.RowCounts) == 0 {
		t.Fatal("no row counts")
	}
	for _, row := range file.RowCounts {
		if row.T < 1 {
			continue // the wrong direction, which no lattice uses
		}
		for _, precision := range []struct {
			epsilon float64
			want    *int
		}{{1.0 / (1 << 24), row.Float32}, {roundoff, row.Float64}} {
			got := pairsOf(row.Ratio, precision.epsilon)
			if precision.want == nil || got < *precision.want || got > *precision.want+1 {
				t.Errorf("ratio %v, error %.3g: %d pairs, measured %v", row.Ratio, precision.epsilon, got, *precision.want)
			}
		}
	}
}
