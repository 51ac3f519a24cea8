// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
)

type rowCount struct {
	Ratio       float64      `json:"ratio_w3p_over_w1"`
	Orientation string       `json:"orientation"` // h: rows along the real axis, v: along the imaginary one
	T           float64      `json:"row_spacing_over_row_period"`
	Err         [][3]float64 `json:"err"` // row pairs, error of ℘, error of ℘′
	Float32     *int         `json:"N_float32"`
	Float64     *int         `json:"N_float64"`
}

func readRowCounts(t *testing.T) []rowCount {
	var file struct {
		RowCounts []rowCount `json:"row_counts"`
	}
	fixtures.JSON(t, "weierstrass", "row_sum.json", &file)
	if len(file.RowCounts) == 0 {
		t.Fatal("no row counts")
	}
	return file.RowCounts
}

func pairsOf(ratio, epsilon float64) int {
	a, b := reducedBasis(1, complex(0, ratio))
	return newRows(a, b, epsilon).pairs
}

func TestRowPairsSufficeAndWastesAtMostOnePair(t *testing.T) {
	fixtures.Each(t, testRowPairsSufficeAndWastesAtMostOnePair)
}

func testRowPairsSufficeAndWastesAtMostOnePair(t *testing.T) {
	for _, row := range readRowCounts(t) {
		if row.T < 1 {
			continue // the wrong direction, which no lattice takes
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

// The errors of the file are the worst over these twelve points of the cell, relative to max(|℘|, e1−e3) and
// max(|℘′|, (e1−e3)^{3/2}).
func TestTruncatedRowSumsErrAsMeasured(t *testing.T) {
	fixtures.Each(t, testTruncatedRowSumsErrAsMeasured)
}

func testTruncatedRowSumsErrAsMeasured(t *testing.T) {
	compared := 0
	for _, row := range readRowCounts(t) {
		l, err := NewLattice(OmegaSquare, OmegaSquare*row.Ratio)
		if err != nil {
			t.Fatal(err)
		}
		size := l.inv.E1 - l.inv.E3
		for _, entry := range row.Err {
			a, b := complex(l.omega1, 0), complex(0, l.omega3p)
			if row.Orientation == "v" {
				a, b = b, -a
			}
			truncated := newRows(a, b, math.Inf(1))
			for n := 1; n <= int(entry[0]); n++ {
				csc2, _ := truncated.row(0, n)
				truncated.constant, truncated.pairs = truncated.constant-2*csc2, n
			}
			var worst, worstPrime float64
			for _, fx := range []float64{0.02, 0.3, 0.7, 0.999} {
				for _, fy := range []float64{0.02, 0.5, 0.999} {
					z := complex(fx*l.omega1, fy*l.omega3p)
					p, pp := l.Eval(z)
					q, qp := truncated.eval(z)
					worst = max(worst, cmplx.Abs(q-p)/max(cmplx.Abs(p), size))
					worstPrime = max(worstPrime, cmplx.Abs(qp-pp)/max(cmplx.Abs(pp), math.Pow(size, 1.5)))
				}
			}
			for _, e := range []struct{ got, want float64 }{{worst, entry[1]}, {worstPrime, entry[2]}} {
				if !(math.Abs(e.got-e.want) <= 1e-6*e.want+16*roundoff) {
					t.Errorf("ω3′/ω1 = %v, rows %s, %v pairs: error %.9g, measured %.9g",
						row.Ratio, row.Orientation, entry[0], e.got, e.want)
				}
				compared++
			}
		}
	}
	t.Logf("%d errors compared", compared)
}
