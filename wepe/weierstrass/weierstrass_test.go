// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass_test

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

const (
	set      = "weierstrass" // mpmath, 60 digits; its README has the error law and the definitions
	roundoff = 1.0 / (1 << 53)
)

// reference is a complex number of the fixtures; they hold 30 digits too, of which float64 needs the first 17.
type reference struct {
	Re float64 `json:"re64"`
	Im float64 `json:"im64"`
}

func (r reference) value() complex128 { return complex(r.Re, r.Im) }

func lattice(t testing.TB, omega1, omega3p float64) weierstrass.Lattice {
	t.Helper()
	l, err := weierstrass.NewLattice(omega1, omega3p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryReferencePointMeetsTheErrorLaw(t *testing.T) {
	var file struct {
		Lattices map[string]struct{ Omega1, Omega3p float64 }
		Points   []struct {
			Lattice, Cat string
			X            float64   `json:"z_re"`
			Y            float64   `json:"z_im"`
			P            reference `json:"wp"`
			PPrime       reference `json:"wpp"`
			PSecond      reference `json:"d2wp_dz2"`
			FixedP       reference `json:"dwp_dw3_fixed"`
			FixedPPrime  reference `json:"dwpp_dw3_fixed"`
			TiedP        reference `json:"dwp_dw3_tied"`
			TiedPPrime   reference `json:"dwpp_dw3_tied"`
			Distance     float64   `json:"dist_to_pole"`
			Scale        float64   `json:"scale_wp"`
			ScalePrime   float64   `json:"scale_wpp"`
		}
	}
	fixtures.JSON(t, set, "wp_points.json", &file)
	if len(file.Points) == 0 {
		t.Fatal("no points")
	}
	worst := map[string]float64{}
	for i, point := range file.Points {
		half := file.Lattices[point.Lattice]
		l := lattice(t, half.Omega1, half.Omega3p)
		z := complex(point.X, point.Y)
		d := l.Derivatives(z)
		if p, pp := l.Eval(z); p != d.P || pp != d.PPrime || l.P(z) != p || l.PPrime(z) != pp {
			t.Errorf("point %d: P, PPrime, Eval and Derivatives disagree", i)
		}
		condition := 1 + cmplx.Abs(z)/point.Distance
		for _, row := range []struct {
			name       string
			got        complex128
			want       reference
			floor      float64
			toleranceC float64
		}{
			{"℘", d.P, point.P, point.Scale, 7},
			{"℘′", d.PPrime, point.PPrime, point.ScalePrime, 7},
			{"℘″", d.PSecond, point.PSecond, point.Scale * point.Scale, 14}, // twice that of ℘, its square
			{"∂℘/∂ω3′", d.FixedP, point.FixedP, point.Scale / half.Omega3p, 25},
			{"∂℘′/∂ω3′", d.FixedPPrime, point.FixedPPrime, point.ScalePrime / half.Omega3p, 25},
			{"d℘/dω3′", d.TiedP, point.TiedP, point.Scale / half.Omega3p, 25},
			{"d℘′/dω3′", d.TiedPPrime, point.TiedPPrime, point.ScalePrime / half.Omega3p, 25},
		} {
			want := row.want.value()
			c := cmplx.Abs(row.got-want) / (roundoff * condition * (cmplx.Abs(want) + row.floor))
			worst[row.name] = max(worst[row.name], c)
			if !(c <= row.toleranceC) {
				t.Errorf("point %d (%s, %s) z=%v: %s = %v, want %v: C = %.3g > %v",
					i, point.Lattice, point.Cat, z, row.name, row.got, want, c, row.toleranceC)
			}
		}
	}
	t.Logf("%d points, worst C: %v", len(file.Points), worst)
}

func TestSpecialCases(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	wide, tall := lattice(t, 3, 0.5), lattice(t, 0.5, 3) // both directions of summing
	for _, l := range []weierstrass.Lattice{weierstrass.Square(), wide, tall} {
		w1, w3 := 2*l.Omega1(), 2*l.Omega3p()
		for _, z := range []complex128{
			0, complex(math.Copysign(0, -1), 0), complex(w1, 0), complex(0, -w3), complex(-3*w1, 5*w3),
			1e-160, 1e-320i, complex(5e-324, 5e-324),
		} {
			p, pp := l.Eval(z)
			d := l.Derivatives(z)
			for _, v := range []complex128{
				p, pp, d.P, d.PPrime, d.PSecond, d.FixedP, d.FixedPPrime, d.TiedP, d.TiedPPrime,
			} {
				if !cmplx.IsInf(v) {
					t.Errorf("%v: pole z=%v: Eval = %v, %v, Derivatives = %v, want Inf", l, z, p, pp, d)
				}
			}
		}
		if p, pp := l.Eval(1e-120); cmplx.Abs(p-1e240) > 1e226 || !cmplx.IsInf(pp) {
			t.Errorf("%v: Eval(1e-120) = %v, %v, want 1e240 and Inf", l, p, pp)
		}
		for _, z := range []complex128{
			complex(nan, 1), complex(1, nan), complex(inf, 1), complex(1, -inf), complex(0, nan), complex(inf, nan),
		} {
			p, pp := l.Eval(z)
			d := l.Derivatives(z)
			sum, sumPrime := l.DirectSum(z, 2)
			for _, v := range []complex128{p, pp, d.P, d.PSecond, d.FixedP, d.TiedPPrime, sum, sumPrime} {
				if !cmplx.IsNaN(v) {
					t.Errorf("%v: z=%v gives %v, want NaN everywhere", l, z, v)
				}
			}
		}
		if p, pp := l.DirectSum(complex(w1, 0), 1); !cmplx.IsInf(p) || !cmplx.IsInf(pp) {
			t.Errorf("%v: DirectSum at a summed point = %v, %v, want Inf", l, p, pp)
		}
		if p, pp := l.DirectSum(2, 0); p != 0.25 || pp != -0.25 {
			t.Errorf("%v: DirectSum(2, 0) = %v, %v, want 1/4, -1/4", l, p, pp)
		}
	}
	if p, pp := (weierstrass.Lattice{}).Eval(1); !cmplx.IsNaN(p) || !cmplx.IsNaN(pp) {
		t.Errorf("the zero Lattice gives %v, %v, want NaN", p, pp)
	}
}

// As ω3′/ω1 → ∞, ℘ → k²(csc² kz − 1/3) and ℘′ → −2k³ csc² kz cot kz, k = π/(2ω1): (2.2) and (2.3) with N = 0.
func TestLongLatticesTendToTrigonometricFunctions(t *testing.T) {
	const k = math.Pi / 2.6
	for _, length := range []float64{30, 1000, 1e8} {
		l := lattice(t, 1.3, 1.3*length)
		for _, z := range []complex128{0.4 + 0.3i, -1.1 + 2i, 1e-3i, complex(0.7, -0.9*l.Omega3p())} {
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
			if d := l.Derivatives(z); cmplx.Abs(d.FixedP) > 1e-20 || cmplx.Abs(d.FixedPPrime) > 1e-20 {
				t.Errorf("%v z=%v: ∂/∂ω3′ = %v, %v, want 0", l, z, d.FixedP, d.FixedPPrime)
			}
			wide, swapped := lattice(t, l.Omega3p(), l.Omega1()), z*-1i
			if q, qp := wide.Eval(swapped); q != -p || qp*1i != pp {
				t.Errorf("%v: Eval(%v) = %v, %v, want the swapped %v, %v", wide, swapped, q, qp, -p, pp*-1i)
			}
		}
	}
}
