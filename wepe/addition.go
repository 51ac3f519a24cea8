// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// steepest is the slope of the chord above which it counts as vertical and the sum as a pole. Its cube, ℘′ of the sum,
// and the gradients of that are still finite in float32.
const steepest = 0x1p30

// AtSum returns ℘(z1+z2) and ℘′(z1+z2) from the values at z1 and z2 alone, mathematics.md (5.1) to (5.4),
// differentiable with respect to all of them. The four values have one shape; g2 is a scalar, see G2.
//
// It is the graph's form of weierstrass.Lattice.Add. z1 = z2 is duplication, and z1 close to z2 costs no digits. z1
// close to -z2 does, like ε/|z1+z2|: the sum is close to a pole and the values no longer say how close; where both
// points are known, P(z1+z2) is better. At z1 = -z2 itself, where the sum has no finite value, and within 2⁻²⁹ of it
// the slope counts as zero, so that nothing becomes infinite. Neither point may be a pole: P has no infinity that could
// stand for it.
func AtSum(p1, pPrime1, p2, pPrime2 ComplexNode, g2 *Node) (p, pPrime ComplexNode) {
	cross, squares := p1.mul(p2), p1.square().add(p2.square())
	rise, run := pPrime1.sub(pPrime2), p1.sub(p2)                            // (5.1)
	otherRise, otherRun := squares.add(cross).scale(4), pPrime1.add(pPrime2) // (5.2)
	otherRise.Re = Sub(otherRise.Re, g2)

	// (5.11): the chord, unless rounding costs it clearly more than the other quotient.
	size := Add(pPrime1.modulus(), pPrime2.modulus())
	otherSize := Add(MulScalar(Add(Add(p1.norm2(), p2.norm2()), cross.modulus()), 4), g2)
	other := GreaterThan(Mul(size, otherRun.modulus()), MulScalar(Mul(otherSize, run.modulus()), 4))
	rise, run = where(other, otherRise, rise), where(other, otherRun, run)

	vertical := LessOrEqual(MulScalar(run.norm2(), steepest*steepest), rise.norm2())
	run = where(vertical, ComplexNode{OnesLike(run.Re), ZerosLike(run.Im)}, run)
	slope := where(vertical, zeros(rise), rise).mul(run.inverse(run.norm2()))
	p = slope.square().scale(0.25).sub(p1).sub(p2) // (5.3)
	pPrime = slope.mul(p1.sub(p)).sub(pPrime1)     // (5.4)
	return p, pPrime
}

// modulus is |a|, for comparisons only: it has no gradient at 0.
func (a ComplexNode) modulus() *Node { return StopGradient(Sqrt(a.norm2())) }

// G2 returns the invariant g2 of the lattice {2mω1 + 2inω3′}, mathematics.md (10.1), a scalar of the half-periods'
// dtype, differentiable.
func G2(omega1, omega3p *Node) *Node {
	turned := LessThan(omega3p, omega1) // g2 is the same for the turned lattice, whose series is the short one
	a, b := Where(turned, omega3p, omega1), Where(turned, omega1, omega3p)
	pairs := rowPairs(a.DType())
	count, cubes := make([]float64, pairs), make([]float64, pairs)
	for i := range count {
		count[i] = float64(i + 1)
		cubes[i] = count[i] * count[i] * count[i]
	}
	g, dtype := a.Graph(), a.DType()
	q := Exp(Mul(ConstAsDType(g, dtype, count), MulScalar(Div(b, a), -2*math.Pi))) // [pairs] q²ⁿ
	eisenstein := AddScalar(MulScalar(ReduceAllSum(Div(Mul(ConstAsDType(g, dtype, cubes), q), OneMinus(q))), 240), 1)
	k := MulScalar(Inverse(a), math.Pi/2)
	return MulScalar(Mul(Square(Square(k)), eisenstein), 4.0/3)
}
