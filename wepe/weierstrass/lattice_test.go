// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

func oblique(t testing.TB, omega1, omega3 complex128) Lattice {
	t.Helper()
	l, err := New(omega1, omega3)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func lattice(t testing.TB, omega1, omega3p float64) Lattice {
	t.Helper()
	return oblique(t, complex(omega1, 0), complex(0, omega3p))
}

func TestReduceIsExactManyPeriodsAway(t *testing.T) {
	for _, l := range []Lattice{Square(), lattice(t, 1.3, 0.007)} {
		for _, x := range []float64{1, -7.3, 1e3, -123456.789, 1e15, 3e22, -1e300, math.MaxFloat64} {
			r := l.reduce(complex(x, -x))
			for _, axis := range []struct {
				name          string
				x, half, rest float64
			}{{"Re", x, real(l.omega1), real(r)}, {"Im", -x, imag(l.omega3), imag(r)}} {
				if !(math.Abs(axis.rest) <= axis.half) {
					t.Errorf("%v: %s of %g reduces to %v, outside the cell", l, axis.name, axis.x, axis.rest)
				}
				// x − rest must be an integer number of periods, exactly.
				exact := new(big.Rat).Sub(new(big.Rat).SetFloat64(axis.x), new(big.Rat).SetFloat64(axis.rest))
				exact.Quo(exact, new(big.Rat).SetFloat64(2*axis.half))
				if !exact.IsInt() {
					t.Errorf("%v: %s of %g reduces to %v, %s periods away",
						l, axis.name, axis.x, axis.rest, exact.FloatString(9))
				}
			}
		}
	}
}

// theta returns θ1 … θ4 at ζ, DLMF 20.2.1 to 20.2.4, and the values at 0 are those for ζ = 0 (θ1 = 0).
func theta(zeta, tau complex128) (t [5]complex128) {
	q := func(exponent float64) complex128 { return cmplx.Exp(1i * math.Pi * tau * complex(exponent, 0)) }
	t[3], t[4] = 1, 1
	sign := complex(1, 0)
	for n := range 20 {
		m := float64(n)
		half, odd := 2*q((m+0.5)*(m+0.5)), complex(2*m+1, 0)*zeta
		t[1] += sign * half * cmplx.Sin(odd)
		t[2] += half * cmplx.Cos(odd)
		sign = -sign
		full := 2 * q((m+1)*(m+1)) * cmplx.Cos(complex(2*m+2, 0)*zeta)
		t[3] += full
		t[4] += sign * full
	}
	return t
}

// byTheta returns ℘ and ℘′ by theta functions of the given basis, DLMF 23.6.2 and 23.6.5 to 23.6.7: no rows, no
// reduction. ℘ − e_k is a square, and ℘′ is minus twice the product of the three roots.
func byTheta(omega1, omega3, z complex128) (p, pp complex128) {
	k := math.Pi / 2 / omega1
	at, zero := theta(k*z, omega3/omega1), theta(0, omega3/omega1)
	root := func(i, j, l int) complex128 { return k * zero[i] * zero[j] * at[l] / at[1] }
	r1, r2, r3 := root(3, 4, 2), root(2, 4, 3), root(2, 3, 4)
	e1 := k * k / 3 * (cmplx.Pow(zero[2], 4) + 2*cmplx.Pow(zero[4], 4))
	return e1 + r1*r1, -2 * r1 * r2 * r3
}

// obliqueBases are half-periods from thin to square, left- and right-leaning, turned, and far from reduced.
var obliqueBases = [][2]complex128{
	{1, 0.5 + 0.9i}, {2.6, 0.4 + 2.1i}, {1.3, -0.6 + 0.8i}, {1, 0.31 + 3i}, {0.7 + 0.4i, -0.5 + 1.1i},
	{1, 0.45 + 0.35i}, {1, 2.2 + 0.6i}, {3, 3i}, {1, -0.5 + 0.5i},
}

func TestLattice_EqualsThetaFunctionsOfAnyBasis(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 1))
	worst := 0.0
	for _, basis := range obliqueBases {
		l := oblique(t, basis[0], basis[1])
		e1, _ := byTheta(basis[0], basis[1], basis[0])
		e3, _ := byTheta(basis[0], basis[1], basis[1])
		scale := cmplx.Abs(e1-e3) + cmplx.Abs(e1)
		for range 200 {
			z := complex(2*random.Float64()-1, 0)*basis[0] + complex(2*random.Float64()-1, 0)*basis[1]
			p, pp := l.Eval(z)
			want, wantPrime := byTheta(basis[0], basis[1], z)
			if q, qp := l.Eval(-z); q != p || qp != -pp {
				t.Errorf("%v, z=%v: %v and %v, at -z %v and %v: want even and odd to the last bit", basis, z, p, pp, q, qp)
			}
			reduced := cmplx.Abs(l.reduce(z))
			condition := 1 + cmplx.Abs(z)/reduced
			units := cmplx.Abs(p-want) / (condition * roundoff * (cmplx.Abs(want) + scale))
			unitsPrime := cmplx.Abs(pp-wantPrime) / (condition * roundoff * (cmplx.Abs(wantPrime) + math.Pow(scale, 1.5)))
			worst = max(worst, units, unitsPrime)
			if !(units <= 30) || !(unitsPrime <= 30) {
				t.Errorf("%v, z=%v: %v and %v, want %v and %v: %.3g and %.3g units", basis, z, p, pp, want, wantPrime, units,
					unitsPrime)
			}
		}
	}
	t.Logf("worst %.1f units of roundoff", worst)
}

func TestNew_RefusesParallelHalfPeriods(t *testing.T) {
	for _, bad := range [][2]complex128{
		{1, 2}, {1, -1i}, {0, 1i}, {1, 0}, {complex(math.NaN(), 0), 1i}, {1, cmplx.Inf()}, {cmplx.Inf(), 1i}, {-1, 1i}, {1,
			complex(0, math.NaN())}, {1e200, 1e200i}, {1e-170, 1e-170i}, {1, 1e26i}, {1e-26, 1i},
	} {
		if _, err := New(bad[0], bad[1]); err == nil {
			t.Errorf("New(%v, %v): %v, want an error", bad[0], bad[1], err)
		}
	}
	one := oblique(t, 1, 1.3i).Invariants()
	for _, size := range []float64{1e-25, 0.7e25} { // homogeneity, DLMF 23.10(iv)
		got := oblique(t, complex(size, 0), complex(0, 1.3*size)).Invariants()
		for name, ratio := range map[string]float64{"g2": got.G2 * math.Pow(size, 4) / one.G2, "j": got.J / one.J,
			"Δ": got.Delta * math.Pow(size, 6) / one.Delta * math.Pow(size, 6)} {
			if !(math.Abs(ratio-1) < 1e-12) {
				t.Errorf("ω1 = %g: %s is %g times that of ω1 = 1, scaled", size, name, ratio)
			}
		}
	}
}
