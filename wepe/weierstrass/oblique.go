// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"fmt"
	"math"
	"math/cmplx"
)

// Oblique is a lattice {2mω1 + 2nω3} whose cell may be any parallelogram. Build it with [NewOblique]; the zero Oblique
// is invalid.
//
// It uses the sums of Lattice, (2.2) and (2.3), after a change of basis: Gauss's reduction (11.1) finds the shortest
// period 2a and with it the basis a, b, where τ = b/a has |Re τ| ≤ ½ and |τ| ≥ 1. Rows along a are then at least √3/2
// of their period apart, so that seven on either side leave a truncation error below 2⁻⁵³, and less for any longer
// cell. Rotated and scaled by k = π/(2a), now complex, the rows lie along the real axis; neighbours are shifted by πRe
// τ.
type Oblique struct {
	a, b complex128 // the reduced basis
	rows
}

// leastSpacing is √3/2, the smallest Im τ of a reduced basis.
const leastSpacing = 0.86602540378443864676

// NewOblique returns the lattice with half-periods ω1 and ω3, which need Im(ω3/ω1) > 0. It returns an error for
// half-periods that are parallel up to rounding.
func NewOblique(omega1, omega3 complex128) (Oblique, error) {
	ratio := omega3 / omega1
	if !(imag(ratio) > 0) || cmplx.IsInf(ratio) || cmplx.IsInf(omega1) || cmplx.IsInf(omega3) {
		return Oblique{}, fmt.Errorf("weierstrass: half-periods omega1 = %v, omega3 = %v: both must be finite and "+
			"omega3/omega1 have a positive imaginary part", omega1, omega3)
	}
	var l Oblique
	l.a, l.b = reducedBasis(omega1, omega3)
	tau := l.b / l.a
	if !(imag(tau) > 0.999*leastSpacing) || cmplx.IsInf(tau) {
		return Oblique{}, fmt.Errorf("weierstrass: half-periods omega1 = %v, omega3 = %v are parallel to rounding",
			omega1, omega3)
	}
	l.rows = newRows(l.a, l.b, roundoff)
	return l, nil
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

// Reduce moves z into the cell around 0: it returns z minus a lattice point. Outside that cell the subtraction has a
// rounding error of about 2⁻⁵³|z|.
func (l Oblique) Reduce(z complex128) complex128 {
	w := z / (2 * l.a)
	n := math.Round(imag(w) / (imag(l.step) / math.Pi))
	m := math.Round(real(w) - n*real(l.step)/math.Pi)
	if n == 0 && m == 0 {
		return z
	}
	return z - 2*(complex(m, 0)*l.a+complex(n, 0)*l.b)
}

// Eval returns ℘(z) and ℘′(z). Special cases are as for Lattice.Eval.
func (l Oblique) Eval(z complex128) (p, pp complex128) {
	if cmplx.IsNaN(z) || cmplx.IsInf(z) {
		return cmplx.NaN(), cmplx.NaN()
	}
	return l.rows.eval(l.Reduce(z))
}
