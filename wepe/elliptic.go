// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"
)

// The exact evaluation.
//
// Method. Equation numbers are those of docs/mathematics.md. Summing the lattice along the shorter period first gives a
// sum over its rows, (2.2) and (2.3),
//
//	℘(z)  = k² [ -1/3 + Σ csc² a_n + 2 Σ_{n>=1} csch² h_n ],   a_n = k (z - 2 i n B),  h_n = 2 n k B,  k = π/(2A)
//	℘′(z) = -2 k³ Σ csc² a_n cot a_n
//
// with A = min(ω1, ω3′) the half-period along the rows and B = max(ω1, ω3′) half their distance. Rows die off as
// exp(-π (2n-1) B/A), so a constant number of them serves every rectangular lattice. Which half-period is the shorter
// one is decided in the graph, because ω3′ is learned: for ω3′ < ω1 the lattice is turned by 90°, (1.11) and (1.12),
//
//	℘(z; ω1, ω3′) = -℘(-i z; ω3′, ω1),   ℘′(z; ω1, ω3′) = i ℘′(-i z; ω3′, ω1).
//
// A row is evaluated through q = exp(±2 i a), |q| <= 1, the sign being that of Im a,
//
//	csc² a = -4 q/(1-q)²,   cot a = ∓i (1+q)/(1-q),
//
// Euler's formulas for sin a and cos a. It cannot overflow in far rows, it needs one Exp, and no Expm1, which has no
// gradient in GoMLX; unlike the host's (2.8) it loses digits at the pole, 1-q, where it is not used: there the central
// row is split by (3.6),
//
//	k² csc² a = 1/z² + k² (1/3 + a²/15 + 2a⁴/189 + …),
//
// and the pole, which does not depend on the lattice, is spared from ∂/∂ω3′, where the unsplit terms cancel. At the pole
// itself see poleRadius.
//
// Error, in units of the law (3.12), over its 432 reference points: 3 for ℘ and ℘′, 5 for their derivatives by z, 46 for
// those by ω3′ at fixed z and 14 for z tied to the lattice; 64 are allowed.
const (
	// seriesRadius is |a| below which the central row is split. The Laurent series converges for |a| < π.
	seriesRadius = 0.5

	// poleRadius bounds the values at a pole: 1/a is computed as conj(a)/max(|a|², poleRadius²), so that |℘| never
	// exceeds (k/poleRadius)² and at the pole itself the principal part is zero. In units of the row half-period the
	// guard is 2/π·2⁻²⁴ = 4e-8, the resolution of float32; a patch of a 1000×1000 grid is 10,000 times farther off.
	poleRadius = 0x1p-24
)

// P returns ℘(z) and ℘′(z) for the lattice {2mω1 + 2inω3′}, at any z, exact to the precision of the dtype (float32 or
// float64) and differentiable with respect to z and both half-periods.
//
// z may have any shape; omega1 and omega3p (ω3′, the modulus of the imaginary half-period) are positive scalars of z's
// dtype. The results have z's shape and are finite everywhere, poles included.
func P(z ComplexNode, omega1, omega3p *Node) (p, pPrime ComplexNode) {
	dtype := z.Re.DType()
	pairs := rowPairs(dtype)
	turned := LessThan(omega3p, omega1)
	// Where, not Min and Max: on the square lattice both sides tie, and the two gradients must take the same side.
	rowHalf := Where(turned, omega3p, omega1)
	gapHalf := Where(turned, omega1, omega3p)
	z = where(turned, ComplexNode{z.Im, Neg(z.Re)}, z)
	z = ComplexNode{nearest(z.Re, rowHalf), nearest(z.Im, gapHalf)}

	k := MulScalar(Inverse(rowHalf), math.Pi/2)
	k2 := Square(k)
	k3 := Mul(k2, k)
	a := z.times(k)                      // |Re a| <= π/2, |Im a| <= gap/2
	gap := MulScalar(Mul(k, gapHalf), 2) // >= π
	sin, cos := Sin(MulScalar(a.Re, 2)), Cos(MulScalar(a.Re, 2))

	near, pole, polePrime, smooth, smoothPrime := principalPart(z, a, StopGradient(k))
	csc2, csc2cot := centralRow(a, near, sin, cos)
	outer, outerCot, csch2 := outerRows(a, sin, cos, gap, pairs)
	rest := AddScalar(MulScalar(csch2, 2), -1.0/3)

	outer.Re = Add(outer.Re, rest)
	p = outer.add(where(near, smooth, csc2)).times(k2)
	p = p.add(where(near, pole, zeros(pole)))
	pPrime = outerCot.scale(-2).add(where(near, smoothPrime, csc2cot.scale(-2))).times(k3)
	pPrime = pPrime.add(where(near, polePrime, zeros(polePrime)))

	p = where(turned, p.scale(-1), p)
	pPrime = where(turned, ComplexNode{Neg(pPrime.Im), pPrime.Re}, pPrime)
	return p, pPrime
}

// rowPairs is the number of rows summed on either side of the central one: the truncation error is
// 4 exp(-π(2N+1)), 1e-9 and 7e-18 on the square lattice and less on every other.
func rowPairs(dtype dtypes.DType) int {
	switch dtype {
	case dtypes.Float32:
		return 3
	case dtypes.Float64:
		return 6
	}
	exceptions.Panicf("wepe.P: dtype %s, want Float32 or Float64", dtype)
	return 0
}

// nearest reduces x by multiples of the period 2·half to |x| <= half. The count is a constant to the gradient, which
// thereby follows the lattice: ∂/∂half of the reduced x is -2n.
func nearest(x, half *Node) *Node {
	period := MulScalar(half, 2)
	n := StopGradient(Floor(AddScalar(Div(x, period), 0.5)))
	return Sub(x, Mul(n, period))
}

// rowTerms returns csc² a and csc² a cot a from sin 2Re a, cos 2Re a, 2|Im a| and the sign of Im a.
func rowTerms(sin, cos, twoAbsIm, sign *Node) (csc2, csc2cot ComplexNode) {
	r := Exp(Neg(twoAbsIm))
	q := ComplexNode{Mul(r, cos), Mul(Mul(r, sin), sign)}
	d := ComplexNode{OneMinus(q.Re), Neg(q.Im)}
	inv := d.inverse(d.norm2()) // 1/(1-q)
	csc2 = q.mul(inv.square()).scale(-4)
	// cot a = -i·sign·(1+q)/(1-q), and (1+q)/(1-q) = 2/(1-q) - 1.
	t := ComplexNode{AddScalar(MulScalar(inv.Re, 2), -1), MulScalar(inv.Im, 2)}
	cot := ComplexNode{Mul(sign, t.Im), Neg(Mul(sign, t.Re))}
	return csc2, csc2.mul(cot)
}

// centralRow returns csc² a and csc² a cot a away from the pole; near it, Im a is replaced by 1, which keeps the branch
// that is not taken finite.
func centralRow(a ComplexNode, near, sin, cos *Node) (csc2, csc2cot ComplexNode) {
	one := OnesLike(a.Re)
	im := Where(near, one, a.Im)
	zero := ZerosLike(im)
	sign := StopGradient(Where(LessThan(im, zero), Neg(one), one)) // not Sign: both half-planes meet at Im a = 0
	return rowTerms(sin, cos, MulScalar(Mul(sign, im), 2), sign)
}

// outerRows sums the rows n = ±1 … ±pairs and, with them, csch² h_n of n = 1 … pairs.
func outerRows(a ComplexNode, sin, cos, gap *Node, pairs int) (csc2, csc2cot ComplexNode, csch2 *Node) {
	g, dtype := gap.Graph(), gap.DType()
	count, side := make([]float64, 2*pairs), make([]float64, 2*pairs)
	for i := range pairs {
		count[i], count[pairs+i] = float64(i+1), float64(i+1)
		side[i], side[pairs+i] = 1, -1
	}
	dims := make([]int, a.Re.Rank()+1)
	for i := range dims {
		dims[i] = 1
	}
	dims[len(dims)-1] = 2 * pairs
	distance := Reshape(Mul(ConstAsDType(g, dtype, count), gap), dims...) // [..., 2·pairs]
	sides := Reshape(ConstAsDType(g, dtype, side), dims...)
	// Im a_n = Im a - n·gap is on the far side of 0 from row n because |Im a| <= gap/2.
	twoAbsIm := MulScalar(Sub(distance, Mul(sides, InsertAxes(a.Im, -1))), 2) // [..., 2·pairs]
	csc2, csc2cot = rowTerms(InsertAxes(sin, -1), InsertAxes(cos, -1), twoAbsIm, Neg(sides))

	q := Exp(MulScalar(Mul(ConstAsDType(g, dtype, count[:pairs]), gap), -2)) // [pairs]
	csch2 = MulScalar(ReduceAllSum(Div(q, Square(OneMinus(q)))), 4)
	return csc2.sumLast(), csc2cot.sumLast(), csch2
}
