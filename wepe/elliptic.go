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
// A row is evaluated through q = exp(±2 i a), |q| <= 1, the sign being that of Im a, (2.10) and (2.11),
//
//	csc² a = -4 q/(1-q)²,   cot a = ∓i (1+q)/(1-q),
//
// which are Euler's formulas for sin a and cos a. Nothing overflows in far rows, one Exp serves both functions, and no
// Expm1 is needed, which has no gradient in GoMLX. Unlike the host's (2.8) it loses digits in 1-q close to the pole;
// there the central row is split by (2.12) and (2.13),
//
//	k² csc² a = 1/z² + k² (1/3 + a²/15 + 2a⁴/189 + …),
//
// so that the pole, which does not depend on the lattice, stays out of ∂/∂ω3′, where the unsplit terms would cancel. At
// the pole itself see poleRadius. Gradients are written out in cell.go.
//
// Error, in units of the law (3.12) of which 64 are allowed, over its 432 reference points in float32 and float64: 3
// for ℘ and ℘′, 6 for their derivatives by z, 19 for those by ω3′ with z fixed or tied to the lattice.
const (
	// seriesRadius is |a| below which the central row is split. The Laurent series converges for |a| < π.
	seriesRadius = 0.75

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
	turned := LessThan(omega3p, omega1)
	// Where, not Min and Max: on the square lattice both sides tie, and the two gradients must take the same side.
	rowHalf := Where(turned, omega3p, omega1)
	gapHalf := Where(turned, omega1, omega3p)
	z = where(turned, ComplexNode{z.Im, Neg(z.Re)}, z)
	z = ComplexNode{nearest(z.Re, rowHalf), nearest(z.Im, gapHalf)}
	one := OnesLike(z.Im)
	half := Where(LessThan(z.Im, ZerosLike(one)), Neg(one), one) // not Sign: the real axis belongs to a half-plane
	z = z.times(half)                                            // Im z >= 0; ℘ is even, ℘′ odd (1.5)

	p, pPrime = inCell(z, rowHalf, gapHalf)
	p = p.times(Where(turned, Neg(OnesLike(omega1)), OnesLike(omega1)))
	pPrime = pPrime.times(half)
	return p, where(turned, pPrime.timesI(), pPrime)
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

// rowTerms are those of the rows of a lattice, n = -pairs … pairs, [..., rows], in factors that cost the least:
//
//	csc² a_n = -4·csc2,   csc² a_n cot a_n = 4i·csc2cot
type rowTerms struct{ csc2, csc2cot ComplexNode }

// newRows evaluates the rows, without the central one where near holds. a is in the upper half-plane, and
// a_n = a - n(shift + i·gap), where shift is nil for 0.
func newRows(a ComplexNode, gap, shift, near *Node, pairs int) rowTerms {
	g, dtype := gap.Graph(), gap.DType()
	var count, sign, central []float64 // |n|, the sign of Im a_n, and 1 for n = 0
	for n := -pairs; n <= pairs; n++ {
		count, sign, central = append(count, math.Abs(float64(n))), append(sign, 1), append(central, 0)
		if n > 0 {
			sign[n+pairs] = -1
		}
	}
	central[pairs] = 1
	row := func(x *Node) *Node { return alongLast(x, a.Re.Rank()+1) } // [rows] to [..., rows]
	signs := row(ConstAsDType(g, dtype, sign))

	// |Im a_n| = |n|·gap ± Im a. A row is left out by moving it so far away that it vanishes.
	distance := Add(row(Mul(ConstAsDType(g, dtype, count), gap)), Mul(signs, InsertAxes(a.Im, -1)))
	away := Where(near, MulScalar(OnesLike(a.Im), 1000), ZerosLike(a.Im))
	distance = Add(distance, Mul(row(ConstAsDType(g, dtype, central)), InsertAxes(away, -1))) // [..., rows]

	r, twice := Exp(MulScalar(distance, -2)), MulScalar(InsertAxes(a.Re, -1), 2)
	if shift != nil { // 2·Re a_n
		index := make([]float64, len(count))
		for i := range index {
			index[i] = 2 * float64(i-pairs)
		}
		twice = Sub(twice, row(Mul(ConstAsDType(g, dtype, index), shift)))
	}
	q := ComplexNode{Mul(r, Cos(twice)), Mul(r, Mul(signs, Sin(twice)))}
	d := ComplexNode{OneMinus(q.Re), Neg(q.Im)}
	inv := d.inverse(d.norm2()) // 1/(1-q)
	csc2 := q.mul(inv.square())
	t := ComplexNode{AddScalar(MulScalar(inv.Re, 2), -1), MulScalar(inv.Im, 2)} // (1+q)/(1-q)
	return rowTerms{csc2, csc2.mul(t).times(signs)}
}

// sums returns Σ csc² a_n and Σ csc² a_n cot a_n.
func (r rowTerms) sums() (csc2, csc2cot ComplexNode) {
	return r.csc2.sumLast().scale(-4), r.csc2cot.sumLast().timesI().scale(4)
}

// constant returns the part of the bracket that does not depend on z, 2 Σ csch² h_n - 1/3, h_n = n·gap.
func constant(gap *Node, pairs int) *Node {
	q := Exp(MulScalar(Mul(multiples(gap.Graph(), gap.DType(), 1, pairs), gap), -2)) // [pairs]
	csch2 := MulScalar(ReduceAllSum(Div(q, Square(OneMinus(q)))), 4)
	return AddScalar(MulScalar(csch2, 2), -1.0/3)
}
