// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import (
	"fmt"
	"math"
	"math/cmplx"
)

// Invariants are the invariants of a rectangular lattice, mathematics.md section 4. All are real except η3, which is
// imaginary.
type Invariants struct {
	// G2 and G3 are the coefficients of ℘′² = 4℘³ − g2℘ − g3.
	G2, G3 float64

	// E1 > E2 > E3 are the roots of 4x³ − g2x − g3: ℘(ω1), ℘(ω1+ω3) and ℘(ω3).
	E1, E2, E3 float64

	// Delta is the discriminant g2³ − 27g3² > 0, and J is 1728 g2³/Δ: 1728 on a square lattice.
	Delta, J float64

	// Eta1 is η1 = ζ(ω1), and Eta3 is η3/i, where η3 = ζ(ω3).
	Eta1, Eta3 float64
}

// Invariants returns the invariants of a rectangular lattice (ω1 > 0, ω3 = iω3′), to a few units of roundoff of their
// natural size (e1−e3 for e_k, its square and cube for g2 and g3); Δ and j are accurate relative to themselves. It
// panics for other lattices, whose invariants are complex.
func (l Lattice) Invariants() Invariants {
	if !l.rectangular() {
		panic("weierstrass: invariants of a lattice that is not rectangular")
	}
	omega1, omega3p := real(l.omega1), imag(l.omega3)
	k, constant, swapped := cmplx.Abs(l.rows.k), real(l.rows.constant), omega3p < omega1
	q := math.Exp(-imag(l.rows.step)) // the nome; it is at most exp(−π) since the rows run along the shorter period
	fourth := func(x float64) float64 { return x * x * x * x }
	theta2 := 16 * q * fourth(1+q*q+math.Pow(q, 6)) // (4.5), fourth powers; the next terms are below 1e-16
	theta3 := fourth(1 + 2*q + 2*fourth(q) + 2*math.Pow(q, 9))
	theta4 := fourth(1 - 2*q + 2*fourth(q) - 2*math.Pow(q, 9))
	k2 := k * k

	var v Invariants
	v.E1 = k2 / 3 * (theta3 + theta4) // (4.6)
	v.E2 = k2 / 3 * (theta2 - theta4)
	v.E3 = -k2 / 3 * (theta2 + theta3)
	product := k2 * theta2 * k2 * theta3 * k2 * theta4 // (4.7)
	v.Eta1 = -k * (math.Pi / 2) * constant             // (4.8) with kA = π/2
	if swapped {
		v.E1, v.E2, v.E3 = -v.E3, -v.E2, -v.E1
		v.Eta3 = -v.Eta1                               // (4.10)
		v.Eta1 = (math.Pi/2 + v.Eta3*omega1) / omega3p // (4.9)
	} else {
		v.Eta3 = (v.Eta1*omega3p - math.Pi/2) / omega1
	}
	v.G2 = 2 * (v.E1*v.E1 + v.E2*v.E2 + v.E3*v.E3) // (4.3)
	v.G3 = 4 * v.E1 * v.E2 * v.E3
	v.Delta = 16 * product * product                    // (4.4)
	g2 := theta2*theta2 + theta3*theta3 + theta4*theta4 // · ⅔k⁴: j does not depend on k
	v.J = 32 * g2 * (g2 / theta2 / theta3) * (g2 / theta2 / theta3) / theta4 / theta4
	return v
}

// HalfPeriods returns ω1 and ω3 of the lattice with real invariants g2 and g3, mathematics.md (4.15) to (4.17) and
// (11.3) to (11.5). For a positive discriminant g2³ − 27g3² the lattice is rectangular, ω3 imaginary; for a negative
// one its cell is a rhombus, with Re ω3 = ω1/2. The error is about 2⁻⁵³/d of ω1 and ω3 at most,
// d = |Δ|/(|g2|³ + 27g3²), because Δ magnifies the rounding of g2 and g3. A d below 1e-14, as of ω3′ > 6.2ω1, is an
// error: that rounding would decide the shape of the cell.
func HalfPeriods(g2, g3 float64) (omega1 float64, omega3 complex128, err error) {
	cube, square := g2*g2*g2, 27*g3*g3
	delta, size := cube-square, math.Abs(cube)+square
	if size <= math.MaxFloat64 && math.Abs(delta) >= 1e-14*size {
		omega1, omega3 = halfPeriods(g2, g3, delta)
	}
	if size := omega1 + cmplx.Abs(omega3); !(size > 0 && size <= math.MaxFloat64) {
		return 0, 0, fmt.Errorf("weierstrass: g2=%v, g3=%v have discriminant %.6g: a lattice needs a finite one, not 0 or "+
			"next to it", g2, g3, delta)
	}
	return omega1, omega3, nil
}

func halfPeriods(g2, g3, delta float64) (omega1 float64, omega3 complex128) {
	if delta > 0 {
		// For g3 < 0 the angle is close to π; the swapped lattice has −g3, and its angle is accurate.
		angle := math.Atan2(math.Sqrt(delta), math.Sqrt(27)*math.Abs(g3)) / 3
		size := math.Sqrt(g2) // √3·r
		e12, e23, e13 := size*math.Sin(math.Pi/3-angle), size*math.Sin(angle), size*math.Sin(math.Pi/3+angle)
		omega1 = math.Pi / (2 * agm(math.Sqrt(e13), math.Sqrt(e12)))
		omega3p := math.Pi / (2 * agm(math.Sqrt(e13), math.Sqrt(e23)))
		if g3 < 0 {
			omega1, omega3p = omega3p, omega1
		}
		return omega1, complex(0, omega3p)
	}
	// The real root by Cardano, the larger of both cube roots first: the other follows without cancellation.
	u := math.Cbrt((g3 + math.Copysign(math.Sqrt(-delta/27), g3)) / 8)
	e := u + g2/(12*u)
	h := math.Sqrt(3*e*e - g2/4) // |e − e_complex|
	m := 0.5 - 3*e/(4*h)
	omega1 = math.Pi / (2 * agm(1, math.Sqrt(1-m)) * math.Sqrt(h))
	omega2 := math.Pi / (2 * agm(1, math.Sqrt(m)) * math.Sqrt(h))
	return omega1, complex(omega1/2, omega2/2)
}

// agm returns the arithmetic-geometric mean of a, b > 0, DLMF 19.8.1. Convergence is quadratic.
func agm(a, b float64) float64 {
	for math.Abs(a-b) > 1e-8*a { // the next mean differs from the limit by (1e-8)²/16 of it
		a, b = (a+b)/2, math.Sqrt(a*b)
	}
	return (a + b) / 2
}
