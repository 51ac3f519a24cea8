// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/cmplx"
)

// Derivatives holds ℘, ℘′ and their first derivatives at one point. The derivatives by z are complex; those by the real
// components x, y of z follow from (3.1): ∂f/∂x = f′, ∂f/∂y = if′.
type Derivatives struct {
	// P, PPrime and PSecond are ℘, ℘′ = d℘/dz and ℘″ = d℘′/dz.
	P, PPrime, PSecond complex128

	// FixedP and FixedPPrime are ∂℘/∂ω3′ and ∂℘′/∂ω3′ while z stays where it is.
	FixedP, FixedPPrime complex128

	// TiedP and TiedPPrime are d℘/dω3′ and d℘′/dω3′ while z = x + iy moves with the lattice, y in proportion to ω3′, as
	// the position of a patch does (6.2).
	TiedP, TiedPPrime complex128
}

// Derivatives returns ℘, ℘′ and their derivatives by z and by ω3′, mathematics.md (3.2) to (3.11).
//
// Special cases are:
//
//	every field is Inf for z in L; a field is Inf where it overflows
//	every field is NaN if a component of z is NaN or infinite
func (l Lattice) Derivatives(z complex128) Derivatives {
	z, _, n := l.Reduce(z)
	if cmplx.IsNaN(z) {
		nan := cmplx.NaN()
		return Derivatives{nan, nan, nan, nan, nan, nan, nan}
	}
	var d Derivatives
	d.P, d.PPrime = l.Eval(z)
	var reducedP, reducedPPrime complex128 // at fixed, reduced z
	if l.swapped {
		w := complex(imag(z), -real(z)) // −iz
		p, pp := l.rows.byRowPeriod(w)
		reducedP, reducedPPrime = -p, complex(-imag(pp), real(pp))
		d.PSecond = l.rows.second(w)
	} else {
		reducedP, reducedPPrime = l.rows.bySpacing(z)
		d.PSecond = l.rows.second(z)
	}
	shift := complex(0, -2*n)               // the pole that z was reduced by moves with ω3′, (3.9)
	motion := complex(0, imag(z)/l.omega3p) // dz/dω3′, (3.10)
	d.FixedP = reducedP + shift*d.PPrime
	d.FixedPPrime = reducedPPrime + shift*d.PSecond
	d.TiedP = reducedP + motion*d.PPrime
	d.TiedPPrime = reducedPPrime + motion*d.PSecond
	for _, field := range []*complex128{&d.PSecond, &d.FixedP, &d.FixedPPrime, &d.TiedP, &d.TiedPPrime} {
		*field = poleAsInf(*field)
	}
	return d
}

// second returns ℘″ by (2.4). Between poles, where ℘ is close to a constant, this keeps digits that 6℘² − g2/2 loses.
func (r rows) second(z complex128) (ppp complex128) {
	a, b := r.k*real(z), r.k*imag(z)
	sin, cos := math.Sincos(a)
	row := func(b float64) complex128 {
		csc2, _ := csc2Cot(sin, cos, b)
		return csc2 * (2 - 3*csc2)
	}
	for n := r.pairs + derivativePairs; n >= 1; n-- {
		h := float64(n) * r.step
		ppp += row(b-h) + row(b+h)
	}
	k2 := r.k * r.k
	return scale(-2*k2*k2, ppp+row(b))
}

// derivativePairs are summed beyond RowPairs: differentiation brings down a factor nπB/A, which magnifies the rows left
// out.
const derivativePairs = 1

// bySpacing returns ∂℘/∂B and ∂℘′/∂B at fixed z, B being the half-period across the rows: (3.2) and (3.3).
// The row through the pole does not move and has no part in them.
func (r rows) bySpacing(z complex128) (p, pp complex128) {
	a, b := r.k*real(z), r.k*imag(z)
	sin, cos := math.Sincos(a)
	for n := r.pairs + derivativePairs; n >= 1; n-- {
		h := float64(n) * r.step
		csc2Above, cotAbove := csc2Cot(sin, cos, b-h)
		csc2Below, cotBelow := csc2Cot(sin, cos, b+h)
		in := complex(0, float64(n))
		p += in*(csc2Above*cotAbove-csc2Below*cotBelow) - complex(2*float64(n)*csch2(h)/math.Tanh(h), 0)
		pp += in * (csc2Above*(2-3*csc2Above) - csc2Below*(2-3*csc2Below))
	}
	k3 := r.k * r.k * r.k
	return scale(4*k3, p), scale(4*k3*r.k, pp)
}

// byRowPeriod returns ∂℘/∂A and ∂℘′/∂A at fixed z, A being the half-period along the rows: (3.4) and (3.5).
func (r rows) byRowPeriod(z complex128) (p, pp complex128) {
	a, b := r.k*real(z), r.k*imag(z)
	sin, cos := math.Sincos(a)
	row := func(b float64) {
		csc2, cot := csc2Cot(sin, cos, b)
		a := complex(a, b)
		p += 2 * csc2 * (a*cot - 1)
		pp += csc2 * (3*cot + a*(2-3*csc2))
	}
	for n := r.pairs + derivativePairs; n >= 1; n-- {
		h := float64(n) * r.step
		row(b - h)
		row(b + h)
		p += complex(4*csch2(h)*(h/math.Tanh(h)-1), 0)
	}
	if central := complex(a, b); cmplx.Abs(central) < seriesRadius {
		dp, dpp := centralRow(central)
		p += dp
		pp += dpp
	} else {
		row(b)
		p += 2.0 / 3
	}
	k2 := r.k * r.k
	perA := r.k / (math.Pi / 2) // 1/A
	return scale(k2*perA, p), scale(2*k2*r.k*perA, pp)
}

// seriesRadius is where the closed form of the central row takes over from its series. At 1.6 nothing is left of the
// cancelling pole (at 1, ∂℘′/∂ω3′ is twice as far off), and the first term that the series (3.8)
// leaves out, j = 40, is 1e-19.
const seriesRadius = 1.6

// csc2Series are the coefficients q_j of csc² a = 1/a² + Σ q_j a^{2j}, j = 0, 1, …, (3.6): 1/3, 1/15, 2/189, …
// csc² − 1/3 is the ℘ of g2 = 4/3, g3 = 8/27, whose second period is infinite; q_j = c_{j+1} of its Laurent
// series, by the recurrence DLMF 23.9.5.
var csc2Series = func() (q [40]float64) {
	q[0], q[1], q[2] = 1.0/3, 1.0/15, 2.0/189
	for j := 3; j < len(q); j++ {
		for i := 1; i <= j-2; i++ {
			q[j] += q[i] * q[j-1-i]
		}
		q[j] *= 3 / (float64(2*j+3) * float64(j-2))
	}
	return q
}()

// centralRow returns the right-hand sides of (3.7) and (3.8), where the pole terms have cancelled.
func centralRow(a complex128) (p, pp complex128) {
	square := a * a
	for j := len(csc2Series) - 1; j >= 1; j-- {
		q := csc2Series[j]
		p = p*square - complex(2*float64(j+1)*q, 0)
		pp = pp*square - complex(2*float64(j*(j+1))*q, 0)
	}
	return p * square, pp * a
}

// csch2 returns 1/sinh² h.
func csch2(h float64) float64 {
	sinh := math.Sinh(h)
	return 1 / (sinh * sinh)
}
