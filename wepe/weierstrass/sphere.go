// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"math"
	"math/cmplx"
)

// Sphere is ℘ and ℘′ of one lattice as points of the Riemann sphere, mathematics.md section 14:
//
//	S(w) = [2 Re w, 2 Im w, |w|² − 1] / (|w|² + 1),   S(∞) = (0, 0, 1)
//	w  = (℘(z) − c)/r     c the incentre of the triangle e1, e2, e3, r² = 2 d1 d2 d3/(d1 + d2 + d3)
//	w′ = ℘′(z)/c′         c′ = (|Δ|/3)^¼
//
// with d1, d2, d3 the sides opposite to e1, e2, e3. On a rectangular lattice the triangle is flat, and c = e2, r² =
// (e1−e2)(e2−e3). S(w) and S(w′) are smooth everywhere, poles included, and a shift of z by a half-period rotates S(w)
// by 180° about a fixed axis; the axes of the three half-periods are orthogonal (14.9).
//
// Method: w and w′ are quotients of theta functions without a common zero, (14.14), so that poles need no special case
// and e2 − e3, which cancels on a long lattice, is not computed. Error: 5e-15 on the reference points of
// testdata/sphere.json, and about 2⁻⁵³·exp(πt/2) on cells t times as long as wide, in proportion to the slope of S(w′)
// at ω1.
//
// Build it with Lattice.Sphere.
type Sphere struct {
	lattice Lattice

	// Constants of (14.14) in the reduced basis.
	phase, phasePrime  complex128
	offset, zero, pole complex128
}

// Sphere returns ℘ and ℘′ of the lattice as points of the Riemann sphere.
func (l Lattice) Sphere() Sphere {
	s := Sphere{lattice: l}
	q := func(exponent float64) complex128 { return cmplx.Exp(1i * complex(exponent, 0) * l.step) }
	half2, theta3, theta4 := complex(1, 0), complex(1, 0), complex(1, 0) // θ2 = 2q^¼·half2 may underflow
	sign := complex(-1, 0)
	for n := 1.0; n <= thetaTerms; n++ {
		half2 += q(n * (n + 1))
		theta3 += 2 * q(n*n)
		theta4 += 2 * sign * q(n*n)
		sign = -sign
	}
	// The squares: t = θ² at 0, its direction, and |θ|⁴.
	t2, t3, t4 := 4*q(0.5)*half2*half2, theta3*theta3, theta4*theta4
	u2, u3, u4, uk := unit(cmplx.Exp(complex(0, real(l.step)/2))*half2*half2), unit(t3), unit(t4), unit(l.k*l.k)
	total := norm2(t2) + norm2(t3) + norm2(t4)

	s.phase, s.phasePrime = uk, complex(0, root4of3)*uk*unit(l.k)*u2*u3*u4
	s.offset = complex(cmplx.Abs(t2)/total, 0) * (complex(norm2(t4), 0)*u2*u2 - t4*t4)
	s.zero, s.pole = u2*t4, complex(math.Sqrt(2*norm2(t3)*norm2(t4)/total), 0)
	return s
}

// root4of3 is 3^¼; with it S(w′) is evenly spread on the hexagonal lattice, (14.12).
const root4of3 = 1.31607401295249246

// thetaTerms of the theta series suffice for a reduced basis, |q| ≤ exp(−π√3/2) = 0.066: the next term is below 1e-20.
const thetaTerms = 5

// At returns S(w) and S(w′) at z. Special case: NaN if a component of z is NaN or infinite.
func (s Sphere) At(z complex128) (point, prime [3]float64) {
	l := s.lattice
	v := l.k * l.reduce(z)
	half := complex(1, 0)
	if imag(v) < 0 { // w is even, w′ odd
		v, half = -v, -1
	}
	// Theta series in q and Q = exp(2iv), every term at most 1, (14.16).
	term := func(quadratic, linear float64) complex128 {
		return cmplx.Exp(complex(0, quadratic)*l.step + complex(0, 2*linear)*v)
	}
	var t1, t2, t3, t4 complex128
	sign := complex(1, 0)
	for n := 0.0; n <= thetaTerms; n++ {
		odd, even := term(n*(n+1), n+1), term(n*(n+1), -n)
		t1 += sign * (even - odd)
		t2 += even + odd
		full := term(n*n, n)
		if n > 0 {
			full += term(n*n, -n)
		}
		t3 += full
		t4 += sign * full
		sign = -sign
	}
	// θ1(v)² = X·t1², |X| = exp(level), (14.17). Numerators and denominators are divided by the larger of 1 and |X|.
	level := 2*imag(v) - imag(l.step)/2
	numerator, denominator := complex(math.Exp(-max(level, 0)), 0), complex(math.Exp(min(level, 0)), 0)
	denominator *= -cmplx.Exp(complex(0, real(l.step)/2-2*real(v)))
	point = onSphere(s.phase*(s.offset*denominator*t1*t1+s.zero*numerator*t3*t3), s.pole*denominator*t1*t1)
	prime = onSphere(half*s.phasePrime*numerator*t2*t3*t4, denominator*t1*t1*t1)
	return point, prime
}

// onSphere returns S(n/d), also for d = 0.
func onSphere(n, d complex128) [3]float64 {
	top, bottom := norm2(n), norm2(d)
	cross := n * cmplx.Conj(d)
	sum := top + bottom
	return [3]float64{2 * real(cross) / sum, 2 * imag(cross) / sum, (top - bottom) / sum}
}

// Dilated returns S(factor·w) for the point S(w) and factor > 0.
func Dilated(point [3]float64, factor float64) [3]float64 {
	top, bottom := factor*factor*(1+point[2]), 1-point[2] // |factor·w|² = top/bottom
	sum := top + bottom
	return [3]float64{2 * factor * point[0] / sum, 2 * factor * point[1] / sum, (top - bottom) / sum}
}

func norm2(x complex128) float64 { return real(x)*real(x) + imag(x)*imag(x) }

func unit(x complex128) complex128 { return x / complex(cmplx.Abs(x), 0) }
