// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// basisSteps are the turns of (11.1) that a graph takes: nine suffice for Im(ω3/ω1) = 1e-6, the least that MinOmega3
// and MaxOmega3 allow.
const basisSteps = 10

// POblique returns ℘(z) and ℘′(z) for the lattice {2mω1 + 2nω3} with complex ω3, Im ω3 > 0, as P does for rectangular
// ones (which it also takes, at a greater price): any z, exact to the precision of the dtype, finite at poles, and
// differentiable with respect to z, ω1 and both parts of ω3. omega1 is a positive scalar, omega3 a pair of scalars.
//
// It is P with the basis of (11.1) in place of the choice between two directions: rows along the shortest period 2a,
// k = π/(2a) complex, neighbouring rows shifted by πRe τ. The reduction is decided in the graph, because ω3 is learned;
// its rounded numbers are constants to the gradient.
func POblique(z ComplexNode, omega1 *Node, omega3 ComplexNode) (p, pPrime ComplexNode) {
	z, k, tau := reducedByBasis(z, omega1, omega3)
	one := OnesLike(z.Im)
	half := Where(LessThan(z.mul(k).Im, ZerosLike(one)), Neg(one), one)
	z = z.times(half)

	arg := z.mul(k) // |Re| <= π/2, 0 <= Im <= gap/2
	gap, shift := MulScalar(tau.Im, math.Pi), MulScalar(tau.Re, math.Pi)
	pairs := rowPairs(z.Re.DType()) + 1 // rows may be √3/2 as close as those of a rectangle
	pole := principalPart(z, arg, StopGradient(Sqrt(k.norm2())))
	csc2, csc2cot := newRows(arg, gap, shift, pole.near, pairs).sums()
	rest := obliqueConstant(gap, shift, pairs)
	csc2 = ComplexNode{Add(csc2.Re, rest.Re), Add(csc2.Im, rest.Im)}

	k2 := k.square()
	p = csc2.add(pole.smooth).mul(k2).add(pole.p)
	pPrime = csc2cot.scale(-2).add(pole.smoothPrime).mul(k2.mul(k)).add(pole.pPrime).times(half)
	return p, pPrime
}

// reducedByBasis returns z less a lattice point, next to 0, and k = π/(2a) and τ = b/a of the basis a, b of (11.1).
func reducedByBasis(z ComplexNode, omega1 *Node, omega3 ComplexNode) (reduced, k, tau ComplexNode) {
	a, b := reducedBasis(ComplexNode{omega1, ZerosLike(omega1)}, omega3)
	inverse := a.inverse(a.norm2())
	tau = b.mul(inverse)
	w := z.mul(inverse).scale(0.5) // z in periods
	n := rounded(Div(w.Im, tau.Im))
	m := rounded(Sub(w.Re, Mul(n, tau.Re)))
	return z.sub(a.times(m).add(b.times(n)).scale(2)), inverse.scale(math.Pi / 2), tau
}

// reducedBasis applies (11.1) to scalars.
func reducedBasis(a, b ComplexNode) (ComplexNode, ComplexNode) {
	translate := func() {
		n := rounded(Div(Add(Mul(b.Re, a.Re), Mul(b.Im, a.Im)), a.norm2())) // Re(b/a)
		b = b.sub(a.times(n))
	}
	for range basisSteps {
		translate()
		turn := LessThan(b.norm2(), a.norm2())
		a, b = where(turn, b, a), where(turn, a.scale(-1), b)
	}
	translate()
	return a, b
}

// rounded is the nearest integer, a constant to the gradient.
func rounded(x *Node) *Node { return StopGradient(Floor(AddScalar(x, 0.5))) }

// obliqueConstant returns -1/3 - 2 Σ csc²(nπτ), the scalar that constant is on a rectangle.
func obliqueConstant(gap, shift *Node, pairs int) ComplexNode {
	twice := multiples(gap.Graph(), gap.DType(), 2, pairs) // 2n
	r, angle := Exp(Neg(Mul(twice, gap))), Mul(twice, shift)
	q := ComplexNode{Mul(r, Cos(angle)), Mul(r, Sin(angle))} // [pairs] exp(2πinτ)
	d := ComplexNode{OneMinus(q.Re), Neg(q.Im)}
	sum := q.mul(d.inverse(d.norm2()).square()) // -csc²/4
	return ComplexNode{AddScalar(MulScalar(ReduceAllSum(sum.Re), 8), -1.0/3), MulScalar(ReduceAllSum(sum.Im), 8)}
}
