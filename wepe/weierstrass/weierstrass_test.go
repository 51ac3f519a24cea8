// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"fmt"
	"math"
	"math/cmplx"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
)

const set = "weierstrass" // mpmath, 60 digits; its README has the error law and the definitions

// reference is a complex number of the fixtures, with 30 digits; float64 has 17.
type reference struct {
	Re float64 `json:"re64"`
	Im float64 `json:"im64"`
}

func (r reference) value() complex128 { return complex(r.Re, r.Im) }

func TestEval_MeetsTheErrorLaw(t *testing.T) { fixtures.Each(t, testEvalMeetsTheErrorLaw) }

// The points of wp_points.json, and of addition.json pairs and their sums: nearly equal, nearly opposite and others,
// where the addition formula loses all digits.
func testEvalMeetsTheErrorLaw(t *testing.T) {
	var points struct {
		Lattices map[string]struct{ Omega1, Omega3p float64 }
		Points   []struct {
			Lattice string
			X       float64   `json:"z_re"`
			Y       float64   `json:"z_im"`
			P       reference `json:"wp"`
			PPrime  reference `json:"wpp"`
		}
	}
	var sums struct {
		Pairs []struct {
			Omega1, Omega3p float64
			Z1, Z2          [2]float64
			P1              reference `json:"wp_z1"`
			PP1             reference `json:"wpp_z1"`
			P2              reference `json:"wp_z2"`
			PP2             reference `json:"wpp_z2"`
			PSum            reference `json:"wp_sum"`
			PPSum           reference `json:"wpp_sum"`
		}
	}
	fixtures.JSON(t, set, "wp_points.json", &points)
	fixtures.JSON(t, set, "addition.json", &sums)
	if len(points.Points) == 0 || len(sums.Pairs) == 0 {
		t.Fatal("no points")
	}
	check := func(l Lattice, z complex128, want, wantPrime reference) {
		t.Helper()
		p, pp := l.Eval(z)
		inv, condition := l.Invariants(), 1+cmplx.Abs(z)/cmplx.Abs(l.reduce(z))
		near := func(got, want complex128, scale float64) bool {
			return cmplx.Abs(got-want) <= 7*roundoff*condition*(cmplx.Abs(want)+scale)
		}
		if !near(p, want.value(), inv.E1-inv.E3) || !near(pp, wantPrime.value(), math.Pow(inv.E1-inv.E3, 1.5)) {
			t.Errorf("%v: Eval(%v) = %v, %v, want %v, %v", l, z, p, pp, want, wantPrime)
		}
	}
	for _, point := range points.Points {
		half := points.Lattices[point.Lattice]
		check(lattice(t, half.Omega1, half.Omega3p), complex(point.X, point.Y), point.P, point.PPrime)
	}
	for _, pair := range sums.Pairs {
		l := lattice(t, pair.Omega1, pair.Omega3p)
		z1, z2 := complex(pair.Z1[0], pair.Z1[1]), complex(pair.Z2[0], pair.Z2[1])
		check(l, z1, pair.P1, pair.PP1)
		check(l, z2, pair.P2, pair.PP2)
		check(l, z1+z2, pair.PSum, pair.PPSum)
	}
}

// Both kinds of lattice, and for rectangular ones both directions of summing.
func TestSpecialCases(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	type function = func(z complex128) (p, pp complex128)
	check := func(what string, eval function, half1, half3 complex128) {
		t.Helper()
		for _, z := range []complex128{
			0, complex(math.Copysign(0, -1), 0), 2 * half1, -2 * half3, -6*half1 + 10*half3, 1e-160, 1e-320i,
			complex(5e-324, 5e-324),
		} {
			if p, pp := eval(z); !cmplx.IsInf(p) || !cmplx.IsInf(pp) {
				t.Errorf("%s: Eval(%v) = %v, %v, want Inf", what, z, p, pp)
			}
		}
		if p, pp := eval(1e-120); cmplx.Abs(p-1e240) > 1e226 || !cmplx.IsInf(pp) {
			t.Errorf("%s: Eval(1e-120) = %v, %v, want 1e240 and Inf", what, p, pp)
		}
		for _, z := range []complex128{
			complex(nan, 1), complex(1, nan), complex(inf, 1), complex(1, -inf), complex(0, nan), complex(inf, nan),
			cmplx.Inf(),
		} {
			if p, pp := eval(z); !cmplx.IsNaN(p) || !cmplx.IsNaN(pp) {
				t.Errorf("%s: Eval(%v) = %v, %v, want NaN", what, z, p, pp)
			}
		}
	}
	for _, l := range []Lattice{Square(), lattice(t, 3, 0.5), lattice(t, 0.5, 3)} {
		check(fmt.Sprint(l.HalfPeriods()), l.Eval, l.omega1, l.omega3)
	}
	check("hexagonal", oblique(t, 2, 1+1.5i).Eval, 2, 1+1.5i)
	if p, pp := (Lattice{}).Eval(1); !cmplx.IsNaN(p) || !cmplx.IsNaN(pp) {
		t.Errorf("the zero Lattice gives %v, %v, want NaN", p, pp)
	}
}

// As ω3′/ω1 → ∞, ℘ → k²(csc² kz − 1/3) and ℘′ → −2k³ csc² kz cot kz, k = π/(2ω1): (2.2) and (2.3) with N = 0.
func TestLongLatticesTendToTrigonometricFunctions(t *testing.T) {
	const k = math.Pi / 2.6
	for _, length := range []float64{30, 1000, 1e8} {
		l := lattice(t, 1.3, 1.3*length)
		for _, z := range []complex128{0.4 + 0.3i, -1.1 + 2i, 1e-3i, complex(0.7, -0.9*imag(l.omega3))} {
			sin, cos := cmplx.Sin(k*z), cmplx.Cos(k*z)
			want, wantPrime := k*k*(1/(sin*sin)-1.0/3), -2*k*k*k*cos/(sin*sin*sin)
			if math.Abs(imag(z)) > 100 { // cosh overflows
				want, wantPrime = -k*k/3, 0
			}
			p, pp := l.Eval(z)
			if cmplx.Abs(p-want) > 20*roundoff*(cmplx.Abs(want)+1) ||
				cmplx.Abs(pp-wantPrime) > 20*roundoff*(cmplx.Abs(wantPrime)+1) {
				t.Errorf("%v: Eval(%v) = %v, %v, want %v, %v", l, z, p, pp, want, wantPrime)
			}
			wide, swapped := lattice(t, imag(l.omega3), real(l.omega1)), z*-1i
			if q, qp := wide.Eval(swapped); q != -p || qp*1i != pp {
				t.Errorf("%v: Eval(%v) = %v, %v, want the swapped %v, %v", wide, swapped, q, qp, -p, pp*-1i)
			}
		}
	}
}
