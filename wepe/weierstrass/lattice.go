// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package weierstrass evaluates the Weierstrass elliptic functions ℘ and ℘′ in float64, on rectangular lattices and, as
// [Oblique], on any other. It imports only the standard library.
//
//	l := weierstrass.Square()                 // ω1 = ω3′ = 2.622…, g2 = 1/4, g3 = 0
//	p, pp := l.Eval(complex(0.3, 0.7))        // ℘ and ℘′, to about 1e-15
//	inv := l.Invariants()                     // g2, g3, Δ, j, e1…e3, η1, η3
//
// For half-periods ω1 > 0 and ω3 = iω3′, ω3′ > 0, and the lattice L = {2mω1 + 2nω3},
//
//	℘(z)  = 1/z² + Σ_{w≠0} [1/(z−w)² − 1/w²]        ℘′(z) = −2 Σ_w 1/(z−w)³
//
// have a double and a triple pole at every point of L and the periods 2ω1 and 2ω3. z is in the units of the
// half-periods.
//
// Values are computed from closed-form sums over whole rows of the lattice (weierstrass.go); a few rows suffice.
// Comments cite formulas by their number in docs/mathematics.md and DLMF chapter 23 (https://dlmf.nist.gov/23), whose
// notation is used.
package weierstrass

import (
	"fmt"
	"math"
	"math/cmplx"
)

// OmegaSquare is the half-period ω1 = Γ(1/4)²/(2√(2π)) of the square lattice with g2 = 1/4, g3 = 0: mathematics.md
// (4.18). The paper starts from this lattice but states g2 = 1, which belongs to ω1 = 1.854….
const OmegaSquare = 2.6220575542921198104648395898911194136827549514316

// Lattice is a rectangular lattice {2mω1 + 2niω3′}. It is immutable and comparable: two lattices are equal when their
// half-periods are. Build it with [NewLattice] or [Square]; the zero Lattice is invalid. For half-periods from
// invariants see [HalfPeriods].
type Lattice struct {
	omega1, omega3p float64

	rows rows // along the shorter period
	inv  Invariants
}

// NewLattice returns the lattice with half-periods ω1 and iω3′. Both must be positive and finite.
func NewLattice(omega1, omega3p float64) (Lattice, error) {
	for _, half := range []struct {
		name  string
		value float64
	}{{"omega1", omega1}, {"omega3p", omega3p}} {
		if !(half.value > 0) || math.IsInf(half.value, 1) {
			return Lattice{}, fmt.Errorf("weierstrass: half-period %s is %v, it must be positive and finite",
				half.name, half.value)
		}
	}
	l := Lattice{omega1: omega1, omega3p: omega3p}
	a, b := reducedBasis(complex(omega1, 0), complex(0, omega3p))
	l.rows = newRows(a, b, roundoff)
	l.inv = l.invariants()
	return l, nil
}

// Square returns the square (lemniscatic) lattice ω1 = ω3′ = OmegaSquare, which has g2 = 1/4 and g3 = 0.
func Square() Lattice {
	l, _ := NewLattice(OmegaSquare, OmegaSquare) // a positive constant
	return l
}

// Omega1 returns the real half-period ω1.
func (l Lattice) Omega1() float64 { return l.omega1 }

// Omega3p returns ω3′, the imaginary half-period being ω3 = iω3′.
func (l Lattice) Omega3p() float64 { return l.omega3p }

// String returns the half-periods in a readable form.
func (l Lattice) String() string { return fmt.Sprintf("lattice(ω1=%v, ω3=%vi)", l.omega1, l.omega3p) }

// Reduce moves z into the cell centred at 0: it returns r = z − 2mω1 − 2nω3 with integers m and n, |Re r| ≤ ω1 and
// |Im r| ≤ ω3′, mathematics.md (1.13).
//
// r is the exact remainder, without rounding error, for z of any size and close to a pole. Special case: r is NaN in a
// component that is NaN or infinite in z.
func (l Lattice) Reduce(z complex128) complex128 {
	return complex(reduce(real(z), 2*l.omega1), reduce(imag(z), 2*l.omega3p))
}

func reduce(x, period float64) float64 {
	if math.Abs(x) <= period/2 {
		return x // points of a patch grid need no long division
	}
	return math.Remainder(x, period)
}

// Eval returns ℘(z), DLMF 23.2.4, and its derivative ℘′(z).
//
// Special cases are:
//
//	℘ = Inf where |z−w| < 1e-154 for a w in L (overflow); ℘′ = Inf where |z−w| < 1e-102
//	℘ = ℘′ = NaN if a component of z is NaN or infinite
func (l Lattice) Eval(z complex128) (p, pp complex128) {
	z = l.Reduce(z)
	if cmplx.IsNaN(z) || l.omega1 == 0 {
		return cmplx.NaN(), cmplx.NaN()
	}
	return l.rows.eval(z)
}
