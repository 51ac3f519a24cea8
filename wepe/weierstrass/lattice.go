// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package weierstrass evaluates the Weierstrass elliptic functions ℘ and ℘′ in float64. It imports only the standard
// library.
//
//	l := weierstrass.Square()                 // ω1 = 2.622…, ω3 = iω1, g2 = 1/4, g3 = 0
//	p, pp := l.Eval(complex(0.3, 0.7))        // ℘ and ℘′, to about 1e-15
//	inv := l.Invariants()                     // g2, g3, Δ, j, e1…e3, η1, η3
//
// For half-periods ω1 and ω3 with Im(ω3/ω1) > 0 and the lattice L = {2mω1 + 2nω3},
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

// Lattice is a lattice {2mω1 + 2nω3}, whose cell may be any parallelogram. It is immutable and comparable: two lattices
// are equal when their half-periods are. Build it with [New] or [Square]; the zero Lattice is invalid. For half-periods
// from invariants see [HalfPeriods].
//
// Gauss's reduction (11.1) finds the shortest period 2a and with it the basis a, b, where τ = b/a has |Re τ| ≤ ½ and
// |τ| ≥ 1. Rows along a are then at least √3/2 of their period apart, so that seven on either side leave a truncation
// error below 2⁻⁵³, and less for any longer cell. Rotated and scaled by k = π/(2a), the rows lie along the real axis;
// neighbours are shifted by πRe τ.
type Lattice struct {
	omega1, omega3 complex128
	a, b           complex128 // the reduced basis
	rows
}

// leastSpacing is √3/2, the smallest Im τ of a reduced basis.
const leastSpacing = 0.86602540378443864676

// maxSize bounds |ω1| and |ω3|, and its inverse from below: Δ is of the order of their power -12.
const maxSize = 1e25

// New returns the lattice with half-periods ω1 and ω3. It returns an error unless the size of both is from 1e-25 to
// 1e25, so that no result overflows but at a pole, Im(ω3/ω1) > 0, and they are not parallel up to rounding.
func New(omega1, omega3 complex128) (Lattice, error) {
	l := Lattice{omega1: omega1, omega3: omega3}
	least, most := min(cmplx.Abs(omega1), cmplx.Abs(omega3)), max(cmplx.Abs(omega1), cmplx.Abs(omega3))
	valid := least >= 1/maxSize && most <= maxSize && imag(omega3/omega1) > 0
	if valid {
		l.a, l.b = reducedBasis(omega1, omega3)
		tau := l.b / l.a
		valid = imag(tau) > 0.999*leastSpacing && !cmplx.IsInf(tau)
	}
	if !valid {
		return Lattice{}, fmt.Errorf("weierstrass: half-periods omega1 = %v, omega3 = %v: want sizes from %g to "+
			"%g and omega3/omega1 with a positive imaginary part", omega1, omega3, 1/maxSize, maxSize)
	}
	l.rows = newRows(l.a, l.b, roundoff)
	return l, nil
}

// Square returns the square (lemniscatic) lattice ω1 = OmegaSquare, ω3 = iω1, which has g2 = 1/4 and g3 = 0.
func Square() Lattice {
	l, _ := New(OmegaSquare, OmegaSquare*1i) // constants
	return l
}

// HalfPeriods returns ω1 and ω3.
func (l Lattice) HalfPeriods() (omega1, omega3 complex128) { return l.omega1, l.omega3 }

// rectangular reports whether ω1 is real and ω3 imaginary, both positive.
func (l Lattice) rectangular() bool {
	return imag(l.omega1) == 0 && real(l.omega3) == 0 && real(l.omega1) > 0
}

// reducedBasis applies (11.1) until nothing changes: |a| decreases at every step.
func reducedBasis(a, b complex128) (complex128, complex128) {
	for {
		b -= complex(math.Round(real(b/a)), 0) * a
		if !(cmplx.Abs(b) < cmplx.Abs(a)) {
			return a, b
		}
		a, b = b, -a
	}
}

// reduce moves z into the cell around 0: it returns z minus a lattice point. On a rectangular lattice this is an exact
// remainder, for z of any size and close to a pole (1.13); on others it has a rounding error of about 2⁻⁵³|z|.
func (l Lattice) reduce(z complex128) complex128 {
	if l.rectangular() {
		return complex(remainder(real(z), 2*real(l.omega1)), remainder(imag(z), 2*imag(l.omega3)))
	}
	w := z / (2 * l.a)
	n := math.Round(imag(w) / (imag(l.step) / math.Pi))
	m := math.Round(real(w) - n*real(l.step)/math.Pi)
	if n == 0 && m == 0 {
		return z
	}
	return z - 2*(complex(m, 0)*l.a+complex(n, 0)*l.b)
}

func remainder(x, period float64) float64 {
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
	if cmplx.IsNaN(z) || cmplx.IsInf(z) || l.k == 0 {
		return cmplx.NaN(), cmplx.NaN()
	}
	return l.rows.eval(l.reduce(z))
}
