// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/cmplx"
)

// Method. Equation numbers refer to docs/mathematics.md.
//
// z is moved to |Re z| ≤ ω1, |Im z| ≤ ω3′ by an exact remainder on each axis (1.13), in an oblique lattice to the cell
// of the reduced basis. Rows of the lattice along its shortest period 2a then sum in closed form, (2.2) and (2.3) with
// τ = b/a, k = π/(2a) and a_n = kz − nπτ; k is real or imaginary in a rectangle, so that no product rounds more than a
// real one. The rows left out contribute less than 4 exp(−π(2N+1) Im τ) of max(|℘|, e1−e3); N = 6 in a square, falling
// to 0 beyond τ = 12i, brings that below 2⁻⁵³ (2.5). Far rows are added first, the row nearest to z last.
//
// csc² and cot are (2.6) to (2.9). Nothing overflows in far rows, and no two large numbers are subtracted: p−q and p+q
// are where csc² vanishes, and D is a sum of squares, so all digits survive next to the pole a = b = 0.
//
// Error: at most 7·2⁻⁵³ (|℘| + e1 − e3) for ℘ and 7·2⁻⁵³ (|℘′| + (e1−e3)^{3/2}) for ℘′ on the 432 reference points
// (periods ratio 1/4 to 4, down to 1e-6 from poles, up to 5 cells away). The floor is needed because ℘ has zeros and
// ℘′ vanishes at half-periods.

// roundoff is ε, the unit roundoff of float64.
const roundoff = 1.0 / (1 << 53)

// rows are 2·pairs+1 rows of a lattice along its shortest period 2a, the next ones shifted by 2b.
type rows struct {
	k, step  complex128 // π/(2a), and πτ, the offset between neighbouring rows in units of 1/k
	pairs    int        // N
	constant complex128 // −1/3 − 2 Σ csc²(nπτ), which is −η/(k²a), (4.8)
}

// newRows takes enough pairs for a truncation error below epsilon relative to max(|℘|, e1−e3), (2.5).
func newRows(a, b complex128, epsilon float64) rows {
	r := rows{k: math.Pi / 2 / a, step: math.Pi * (b / a), constant: -1.0 / 3}
	r.pairs = max(0, int(math.Ceil((math.Log(4/epsilon)/imag(r.step)-1)/2)))
	for n := r.pairs; n >= 1; n-- {
		csc2, _ := r.row(0, n)
		r.constant -= 2 * csc2
	}
	return r
}

// eval returns (2.2) and (2.3) for z in the cell around 0, Inf at the pole.
func (r rows) eval(z complex128) (p, pp complex128) {
	a := r.k * z
	sum, slope := r.constant, complex128(0)
	for n := r.pairs; n >= 1; n-- {
		csc2Above, cotAbove := r.row(a, n)
		csc2Below, cotBelow := r.row(a, -n)
		sum += csc2Above + csc2Below
		slope += csc2Above*cotAbove + csc2Below*cotBelow
	}
	csc2, cot := r.row(a, 0)
	k2 := r.k * r.k
	return poleAsInf(k2 * (sum + csc2)), poleAsInf(-2 * (k2*r.k*slope + k2*csc2*(r.k*cot)))
}

// poleAsInf replaces an overflowed value at a pole (NaN or Inf in some component) by complex infinity.
func poleAsInf(v complex128) complex128 {
	if cmplx.IsNaN(v) || cmplx.IsInf(v) {
		return cmplx.Inf()
	}
	return v
}

// row returns csc² and cot of a − nπτ, (2.6) to (2.9).
func (r rows) row(a complex128, n int) (csc2, cot complex128) {
	if n != 0 { // nπτ may be infinite
		a -= complex(float64(n), 0) * r.step
	}
	sin, cos := math.Sincos(real(a))
	b := imag(a)
	abs := math.Abs(b)
	e := math.Exp(-abs)
	e2 := e * e
	s := math.Copysign(math.Expm1(-2*abs)/2, b)
	c := (1 + e2) / 2
	d := sin*sin*e2 + s*s
	p, q := sin*c/d, -cos*s/d
	csc2 = complex(e2*((p-q)*(p+q)), e2*(2*p*q))
	cot = complex(sin*cos*e2/d, -s*c/d)
	return csc2, cot
}
