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
// with d1, d2, d3 the sides opposite to e1, e2, e3. On a rectangular lattice the triangle is flat, and c = e2,
// r² = (e1−e2)(e2−e3). S(w) and S(w′) are smooth everywhere, poles included, and a shift of z by a half-period turns
// S(w) by a fixed rotation, see Rotation.
//
// Method: w and w′ are quotients of theta functions without a common zero, (14.14), so that a pole is a
// point like any other and e2 − e3, in which a long lattice has no digits left, is not formed. Error: 5e-15 on the
// reference points of testdata/sphere.json, and on cells t times as long as wide like 2⁻⁵³·exp(πt/2), which is how fast
// S(w′) changes at ω1.
//
// Build it with Lattice.Sphere or Oblique.Sphere.
type Sphere struct {
	lattice           Oblique
	roots             [3]complex128 // e1, e2, e3
	centre            complex128    // c
	scale, scalePrime float64       // r, c′
	axes              [3][3]float64 // n1, n2, n3

	// Constants of (14.14) in the reduced basis.
	turn, turnPrime  complex128
	lean, zero, pole complex128
}

// Sphere returns ℘ and ℘′ of the lattice on the sphere.
func (l Lattice) Sphere() Sphere {
	o, _ := NewOblique(complex(l.omega1, 0), complex(0, l.omega3p)) // a right angle is never parallel to rounding
	return o.Sphere()
}

// Sphere returns ℘ and ℘′ of the lattice on the sphere.
func (l Oblique) Sphere() Sphere {
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
	// From here on squares: t = θ² at 0, its direction, and |θ|⁴.
	t2, t3, t4 := 4*q(0.5)*half2*half2, theta3*theta3, theta4*theta4
	u2, u3, u4, uk := unit(cmplx.Exp(complex(0, real(l.step)/2))*half2*half2), unit(t3), unit(t4), unit(l.k*l.k)
	total := norm2(t2) + norm2(t3) + norm2(t4)

	// Roots (4.6), and their distances (4.7), at the half-periods a, a+b and b of the reduced basis.
	k2 := l.k * l.k
	roots := [3]complex128{k2 / 3 * (t3*t3 + t4*t4), k2 / 3 * (t2*t2 - t4*t4), -k2 / 3 * (t2*t2 + t3*t3)}
	for i, opposite := range [3]float64{norm2(t2), norm2(t3), norm2(t4)} {
		s.centre += roots[i] * complex(opposite/total, 0)
	}
	size := cmplx.Abs(k2)
	s.scale = size * cmplx.Abs(t2) * math.Sqrt(2*norm2(t3)*norm2(t4)/total)
	s.scalePrime = 2 / root4of3 * size * cmplx.Abs(l.k) * cmplx.Abs(t2*t3*t4)

	// Axes (14.9), in the order of the half-periods that the lattice was given by.
	axis := func(length float64, direction complex128, height float64) [3]float64 {
		direction *= complex(math.Sqrt(2/total)*length, 0)
		return [3]float64{real(direction), imag(direction), 2 * height / total}
	}
	axes := [3][3]float64{
		axis(cmplx.Abs(t2), uk*u3*u4, real(t4*cmplx.Conj(t3))),
		axis(cmplx.Abs(t3), 1i*uk*u2*u4, imag(t2*cmplx.Conj(t4))),
		axis(cmplx.Abs(t4), uk*u2*u3, -real(t2*cmplx.Conj(t3))),
	}
	for i, half := range [3]complex128{l.omega1, l.omega1 + l.omega3, l.omega3} {
		j := l.reducedHalfPeriod(half)
		s.roots[i], s.axes[i] = roots[j], axes[j]
	}

	s.turn, s.turnPrime = uk, complex(0, root4of3)*uk*unit(l.k)*u2*u3*u4
	s.lean = complex(cmplx.Abs(t2)/total, 0) * (complex(norm2(t4), 0)*u2*u2 - t4*t4)
	s.zero, s.pole = u2*t4, complex(math.Sqrt(2*norm2(t3)*norm2(t4)/total), 0)
	return s
}

// root4of3 is 3^¼, which makes S(w′) evenly spread on the hexagonal lattice, (14.12).
const root4of3 = 1.31607401295249246

// thetaTerms of the theta series suffice for a reduced basis, |q| ≤ exp(−π√3/2) = 0.066: the next is below 1e-20.
const thetaTerms = 5

// reducedHalfPeriod returns which of a, a+b and b a half-period is, up to periods: 0, 1 or 2.
func (l Oblique) reducedHalfPeriod(half complex128) int {
	w := half / l.a
	n := math.Round(imag(w) * math.Pi / imag(l.step))
	m := math.Round(real(w) - n*real(l.step)/math.Pi)
	switch mOdd, nOdd := math.Mod(m, 2) != 0, math.Mod(n, 2) != 0; {
	case !nOdd:
		return 0
	case mOdd:
		return 1
	default:
		return 2
	}
}

// Centre returns c, the incentre of the triangle of e1, e2 and e3: e2 on a rectangular lattice.
func (s Sphere) Centre() complex128 { return s.centre }

// Scale returns r, and ScalePrime c′. Both tend to 0 with a cell that becomes thin.
func (s Sphere) Scale() float64 { return s.scale }

// ScalePrime returns c′ = (|Δ|/3)^¼.
func (s Sphere) ScalePrime() float64 { return s.scalePrime }

// Roots returns e1 = ℘(ω1), e2 = ℘(ω1+ω3) and e3 = ℘(ω3).
func (s Sphere) Roots() [3]complex128 { return s.roots }

// At returns S(w) and S(w′) at z. Special case: NaN if a component of z is NaN or infinite.
func (s Sphere) At(z complex128) (point, prime [3]float64) {
	l := s.lattice
	v := l.k * l.Reduce(z)
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
	point = onSphere(s.turn*(s.lean*denominator*t1*t1+s.zero*numerator*t3*t3), s.pole*denominator*t1*t1)
	prime = onSphere(half*s.turnPrime*numerator*t2*t3*t4, denominator*t1*t1*t1)
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

// Rotation returns R with S(w(z+ω)) = R·S(w(z)) for all z, where ω is ω1 (half-period 1), ω1+ω3 (2) or ω3 (3):
// the half-turn 2nnᵀ − 1 about the axis n of (14.9). The three axes are at right angles to each other.
func (s Sphere) Rotation(halfPeriod int) (r [3][3]float64) {
	n := s.axes[halfPeriod-1]
	for i := range r {
		for j := range r[i] {
			r[i][j] = 2 * n[i] * n[j]
		}
		r[i][i]--
	}
	return r
}

func norm2(x complex128) float64 { return real(x)*real(x) + imag(x)*imag(x) }

func unit(x complex128) complex128 { return x / complex(cmplx.Abs(x), 0) }
