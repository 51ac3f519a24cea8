// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
)

func TestReferenceInvariants(t *testing.T) { fixtures.Each(t, testReferenceInvariants) }

func testReferenceInvariants(t *testing.T) {
	var file struct{ Lattices []map[string]any }
	fixtures.JSON(t, set, "invariants.json", &file)
	if len(file.Lattices) == 0 {
		t.Fatal("no lattices")
	}
	for _, reference := range file.Lattices {
		want := func(name string) float64 { return reference[name].(float64) }
		half1, half3, g2, g3, j := want("omega1"), want("omega3p"), want("g2_f64"), want("g3_f64"), want("j_f64")
		l := lattice(t, half1, half3)
		got, size := l.Invariants(), want("e1_f64")-want("e3_f64")
		eta := math.Max(math.Abs(want("eta1_f64")), math.Abs(want("eta3_im_f64")))
		// Derivatives by ω3′, (4.12) to (4.14), whose terms cancel on long cells.
		shortest := math.Min(half1, half3)
		factor, ratio := 2*half1/math.Pi, got.Eta1/half1
		slope := func(e float64) float64 { return factor * (2*e*e - got.G2/3 - 2*ratio*e) }
		for _, row := range []struct {
			name            string
			got, want, size float64
			unitsOfRoundoff float64
		}{
			{"g2", got.G2, g2, size * size, 10}, {"g3", got.G3, g3, size * size * size, 10},
			{"e1", got.E1, want("e1_f64"), size, 5}, {"e2", got.E2, want("e2_f64"), size, 5},
			{"e3", got.E3, want("e3_f64"), size, 5},
			{"Δ", got.Delta, want("disc_f64"), want("disc_f64"), 200}, // 12th power of k, 2nd of exp(−πω3′/ω1)
			{"j", got.J, j, j, 200},
			{"η1", got.Eta1, want("eta1_f64"), eta, 5}, {"η3/i", got.Eta3, want("eta3_im_f64"), eta, 5},
			{"∂g2", factor * (6*got.G3 - 4*ratio*got.G2), want("dg2_dw3_f64"), size * size / shortest, 40},
			{"∂g3", factor * (got.G2*got.G2/3 - 6*ratio*got.G3), want("dg3_dw3_f64"), size * size * size / shortest, 40},
			{"∂e1", slope(got.E1), want("de1_dw3_f64"), size / shortest, 40},
			{"∂e2", slope(got.E2), want("de2_dw3_f64"), size / shortest, 40},
			{"∂e3", slope(got.E3), want("de3_dw3_f64"), size / shortest, 40},
		} {
			c := math.Abs(row.got-row.want) / (roundoff * (math.Abs(row.want) + row.size))
			if !(c <= row.unitsOfRoundoff) {
				t.Errorf("%s: %s = %v, want %v: %.3g units of roundoff > %v",
					reference["lattice"], row.name, row.got, row.want, c, row.unitsOfRoundoff)
			}
		}

		omega1, omega3, err := HalfPeriods(g2, g3)
		// The given g2 and g3 are rounded, and Δ = g2³−27g3² magnifies that by g2³/Δ = j/1728.
		tolerance := 16 * roundoff * (1 + j/1728)
		determined := tolerance < 1 // otherwise Δ of the rounded numbers may be 0 or negative
		if determined && (err != nil || !(math.Abs(omega1/half1-1) <= tolerance) || real(omega3) != 0 ||
			!(math.Abs(imag(omega3)/half3-1) <= tolerance)) {
			t.Errorf("%s: HalfPeriods(%v, %v) = %v, %v, %v, want %v, %vi to %.2g",
				reference["lattice"], g2, g3, omega1, omega3, err, half1, half3, tolerance)
		}
	}
}

func TestTheSquareLatticeHasG2OneQuarter(t *testing.T) {
	gamma, l := math.Gamma(0.25), Square()
	want := gamma * gamma / (2 * math.Sqrt(2*math.Pi)) // mathematics.md (4.18)
	inv := l.Invariants()
	if !(math.Abs(real(l.omega1)-want) <= 1e-15*want) || imag(l.omega3) != real(l.omega1) ||
		real(l.omega1) != OmegaSquare ||
		!(math.Abs(inv.G2-0.25) <= 8*roundoff) || !(math.Abs(inv.G3) <= 8*roundoff) {
		t.Errorf("%v, g2 = %v, g3 = %v, want half-periods %v, 1/4 and 0", l, inv.G2, inv.G3, want)
	}
}

// Half-periods of rectangular lattices, {ω1, Im ω3}, and invariants of rhombic ones, whose Re ω3 is ω1/2.
func TestHalfPeriodsInvertInvariants(t *testing.T) {
	for _, half := range [][2]float64{{1, 1.1}, {1.1, 1}, {0.03, 0.05}, {40, 29}, {1, 1.9}, {1.9, 1}} {
		inv := lattice(t, half[0], half[1]).Invariants()
		omega1, omega3, err := HalfPeriods(inv.G2, inv.G3)
		tolerance := 50 * roundoff * inv.J / 1728
		if err != nil || !(math.Abs(omega1/half[0]-1) <= tolerance) || real(omega3) != 0 ||
			!(math.Abs(imag(omega3)/half[1]-1) <= tolerance) {
			t.Errorf("half-periods %v come back as %v, %v: %v, tolerance %.2g", half, omega1, omega3, err, tolerance)
		}
	}
	for _, want := range [][2]float64{{0.8, 0.2}, {0, 1}, {0, -1}, {-1, 0}, {-3, 0.7}, {2.9, -1}, {-40, -3}} {
		omega1, omega3, err := HalfPeriods(want[0], want[1])
		if err != nil || real(omega3) != omega1/2 {
			t.Errorf("%v: half-periods %v, %v: %v, want Re ω3 = ω1/2", want, omega1, omega3, err)
		}
		l := oblique(t, complex(omega1, 0), omega3)
		e1, _ := l.Eval(complex(omega1, 0))
		e3, _ := l.Eval(omega3)
		g2, g3 := 4*(e1*e1+e1*e3+e3*e3), -4*e1*e3*(e1+e3) // DLMF 23.3.6 and 23.3.7 with e2 = −e1 − e3
		size := math.Max(math.Sqrt(math.Abs(want[0])), math.Cbrt(math.Abs(want[1])))
		if cmplx.Abs(g2-complex(want[0], 0)) > 400*roundoff*size*size ||
			cmplx.Abs(g3-complex(want[1], 0)) > 400*roundoff*size*size*size {
			t.Errorf("g2 = %v, g3 = %v, want %v", g2, g3, want)
		}
	}
	// DLMF 23.5(iii) and (v): the square lattice of g2 = 1 and the hexagonal one of g3 = 1.
	for _, row := range []struct {
		g2, g3, omega1 float64
		omega3         complex128
	}{
		{1, 0, math.Pow(math.Gamma(0.25), 2) / (4 * math.Sqrt(math.Pi)), 1i},
		{0, 1, math.Pow(math.Gamma(1.0/3), 3) / (4 * math.Pi), cmplx.Exp(1i * math.Pi / 3)},
	} {
		omega1, omega3, err := HalfPeriods(row.g2, row.g3)
		if err != nil || !(math.Abs(omega1-row.omega1) <= 2e-15) ||
			cmplx.Abs(omega3-row.omega3*complex(row.omega1, 0)) > 4e-15 {
			t.Errorf("g2 = %v, g3 = %v: %v, %v, %v, want ω1 = %v", row.g2, row.g3, omega1, omega3, err, row.omega1)
		}
	}
}

// invariantsOf are g2 and g3 of ω1 = 1 and ω3 = i·length, rounded, DLMF 23.8.1 and 23.8.2.
func invariantsOf(length float64) [2]float64 {
	q := math.Exp(-2 * math.Pi * length)
	fourth := math.Pow(math.Pi/2, 4)
	return [2]float64{fourth * (4./3 + 320*q), fourth * math.Pi * math.Pi / 4 * (8./27 - 448./3*q)}
}

func TestHalfPeriods_Refuses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, bad := range [][2]float64{{0, 0}, {3, 1}, {nan, 0}, {1, nan}, {inf, 0}, {1, inf},
		{3, 1 + 4e-16}, {3, -1 - 4e-16}, invariantsOf(6.8), invariantsOf(9)} {
		if _, _, err := HalfPeriods(bad[0], bad[1]); err == nil {
			t.Errorf("HalfPeriods(%v, %v): no error", bad[0], bad[1])
		}
	}
	long := invariantsOf(6)
	if _, omega3, err := HalfPeriods(long[0], long[1]); err != nil || !(math.Abs(imag(omega3)-6) < 1e-2) {
		t.Errorf("ω3 = 6i comes back as %v: %v", omega3, err)
	}
}
