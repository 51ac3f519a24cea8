// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
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

func TestRowPairsSufficesAndWastesAtMostOnePair(t *testing.T) {
	for _, row := range readRowCounts(t) {
		if row.T < 1 {
			continue // the wrong direction, which RowPairs never takes
		}
		for _, precision := range []struct {
			epsilon float64
			want    *int
		}{{1.0 / (1 << 24), row.Float32}, {roundoff, row.Float64}} {
			got := RowPairs(row.Ratio, precision.epsilon)
			if precision.want == nil || got < *precision.want || got > *precision.want+1 {
				t.Errorf("RowPairs(%v, %.3g) = %d, measured %v", row.Ratio, precision.epsilon, got, *precision.want)
			}
		}
	}
}

// The errors of the file are the worst over these twelve points of the cell, relative to max(|℘|, e1−e3) and
// max(|℘′|, (e1−e3)^{3/2}).
func TestTruncatedRowSumsErrAsMeasured(t *testing.T) {
	compared := 0
	for _, row := range readRowCounts(t) {
		l, err := NewLattice(OmegaSquare, OmegaSquare*row.Ratio)
		if err != nil {
			t.Fatal(err)
		}
		size := l.inv.E1 - l.inv.E3
		for _, entry := range row.Err {
			a, b := l.omega1, l.omega3p
			if row.Orientation == "v" {
				a, b = b, a
			}
			truncated := newRows(a, b, int(entry[0]))
			var worst, worstPrime float64
			for _, fx := range []float64{0.02, 0.3, 0.7, 0.999} {
				for _, fy := range []float64{0.02, 0.5, 0.999} {
					z := complex(fx*l.omega1, fy*l.omega3p)
					p, pp := l.Eval(z)
					var q, qp complex128
					if row.Orientation == "h" {
						q, qp = truncated.eval(z)
					} else {
						q, qp = truncated.eval(z * -1i)
						q, qp = -q, qp*1i
					}
					worst = max(worst, cmplx.Abs(q-p)/max(cmplx.Abs(p), size))
					worstPrime = max(worstPrime, cmplx.Abs(qp-pp)/max(cmplx.Abs(pp), math.Pow(size, 1.5)))
				}
			}
			for _, e := range []struct{ got, want float64 }{{worst, entry[1]}, {worstPrime, entry[2]}} {
				if math.Abs(e.got-e.want) > 1e-6*e.want+16*roundoff {
					t.Errorf("ω3′/ω1 = %v, rows %s, %v pairs: error %.9g, measured %.9g",
						row.Ratio, row.Orientation, entry[0], e.got, e.want)
				}
				compared++
			}
		}
	}
	t.Logf("%d errors compared", compared)
}

// ∂/∂ω3′ is ∂/∂A of rows along the imaginary axis (3.4), (3.5), or ∂/∂B of the many more rows along the real axis
// that give the same precision (3.2), (3.3): different formulas for the same numbers. The ratios are those where
// RowPairs is about to need one more pair.
func TestDerivativesAgreeInBothDirectionsOfSumming(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 14))
	for pairs := 1; pairs <= 5; pairs++ {
		ratio := math.Pi * float64(2*pairs+1) / math.Log(4/roundoff)
		l, err := NewLattice(1, 0.999*ratio)
		if err != nil {
			t.Fatal(err)
		}
		along := newRows(l.omega1, l.omega3p, int(20/ratio))
		size := l.inv.E1 - l.inv.E3
		for i := range 4000 {
			z := complex(2*random.Float64()-1, (2*random.Float64()-1)*l.omega3p)
			if i%2 == 0 {
				z = complex(1-0.01*random.Float64(), imag(z)) // farthest from the central row
			}
			got := l.Derivatives(z)
			p, pp := along.bySpacing(z)
			c := cmplx.Abs(got.FixedP-p) / (roundoff * (cmplx.Abs(p) + size/l.omega3p))
			cPrime := cmplx.Abs(got.FixedPPrime-pp) / (roundoff * (cmplx.Abs(pp) + math.Pow(size, 1.5)/l.omega3p))
			if !(c <= 30) || !(cPrime <= 30) {
				t.Errorf("%v z=%v: %v, %v along one axis, %v, %v along the other: C = %.3g, %.3g",
					l, z, got.FixedP, got.FixedPPrime, p, pp, c, cPrime)
			}
		}
	}
}
