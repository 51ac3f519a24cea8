// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"
)

// The exact evaluation. Equation numbers refer to docs/mathematics.md.
//
// Summing the lattice along a short period 2a first gives a sum over its rows, (2.2) and (2.3), for any half-periods a,
// b with τ = b/a, k = π/(2a), a_n = kz - nπτ and
//
//	℘(z) = k² [ c(τ) + Σ csc² a_n ],   c(τ) = -1/3 - 2 Σ_{n>=1} csc²(nπτ)
//
// Terms of the rows decay as exp(-π (2n-1) Im τ), so a constant number of rows suffices for every lattice with a
// reduced basis, see basis.go. A row other than the central one is evaluated through q = exp(±2 i a_n), |q| < 1, with
// the sign of Im a_n, (2.10) and (2.11): nothing overflows in far rows. The central row contains the pole, and the sign
// of Im a may depend on rounding there: it uses (2.8), see central. Gradients are written out in cell.go.
//
// No branch depends on a rounding error. XLA recomputes cheap intermediate results at each use, rounded differently, so
// that a comparison of two nearly equal numbers may hold in one place and fail in another. The sign of Im a is
// undecided on a whole line through poles: only |Im a| and tanh(Im a) are used. Re a is determined up to periods: only
// functions of period π are used. The other comparisons are in basis.go.
//
// Error over the 432 reference points in float32 and float64, in units of the bound (3.12), which allows 64: at most
// 5.6 for ℘ and ℘′ and 10.5 for their derivatives, on pure Go.
const (
	// PoleRadius bounds the values at a pole: smaller |sin a| are replaced by PoleRadius, so that |℘| never exceeds
	// |k/PoleRadius|²; at the pole itself both functions are zero. In units of the row half-period PoleRadius is 2/π·2⁻²⁴
	// = 4e-8, the resolution of float32; a patch of a 1000×1000 grid is 10,000 times farther away.
	PoleRadius = 0x1p-24

	// steepestPole is the minimum of PoleRadius/|k|, which applies to half-periods below 2⁻⁴: without it the derivatives
	// of ℘′ at PoleRadius would overflow float32.
	steepestPole = 0x1p-28
)

// rowPairs is the number of rows summed on either side of the central one. The truncation error is 4 exp(-π(2N+1) Im
// τ), at the smallest Im τ 2e-9 and 3e-17 for a rectangle, 2e-10 and 3e-17 for an oblique lattice.
func (l Basis) rowPairs() (pairs int) {
	switch dtype := l.A.Re.DType(); dtype {
	case dtypes.Float32:
		pairs = 3
	case dtypes.Float64:
		pairs = 6
	default:
		exceptions.Panicf("wepe: ℘ in %s, want Float32 or Float64", dtype)
	}
	if l.Oblique {
		pairs++
	}
	return pairs
}

// rowTerms holds the terms of all rows except the central one, n = -pairs … -1, 1 … pairs, [..., rows], without
// constant factors:
//
//	csc² a_n = -4·csc2,   csc² a_n cot a_n = 4i·csc2cot
type rowTerms struct{ csc2, csc2cot ComplexNode }

// rowIndices returns the row numbers n.
func rowIndices(pairs int) (n []float64) {
	for i := -pairs; i <= pairs; i++ {
		if i != 0 {
			n = append(n, float64(i))
		}
	}
	return n
}

// newRows evaluates the rows at 0 or around it, for |Im a| up to gap/2 plus borderShift. twice is [cos 2Re a, sin 2Re
// a]; a_n = a - n(shift + i·gap); a nil shift is 0.
func newRows(twice ComplexNode, im, gap, shift *Node, pairs int) rowTerms {
	g, dtype := gap.Graph(), gap.DType()
	var count, sign []float64 // |n| and the sign of Im a_n
	for _, n := range rowIndices(pairs) {
		count, sign = append(count, math.Abs(n)), append(sign, math.Copysign(1, -n))
	}
	row := func(x *Node) *Node { return AlongLast(x, im.Rank()+1) } // [rows] to [..., rows]
	counts, signs := row(ConstAsDType(g, dtype, count)), row(ConstAsDType(g, dtype, sign))

	// q = exp(2i·sign·a_n), with |Im a_n| = |n|·gap + sign·Im a.
	distance := Add(Mul(counts, InsertAxes(gap, -1)), Mul(signs, InsertAxes(im, -1))) // [..., rows]
	r := Exp(MulScalar(distance, -2))
	q := ComplexNode{Mul(r, InsertAxes(twice.Re, -1)), Mul(r, Mul(signs, InsertAxes(twice.Im, -1)))}
	if shift != nil {
		angle := MulScalar(Mul(counts, InsertAxes(shift, -1)), 2)
		q = q.mul(ComplexNode{Cos(angle), Sin(angle)})
	}
	csc2, t := eulerTerms(q)
	return rowTerms{csc2, csc2.mul(t).Times(signs)}
}

// eulerTerms returns q/(1-q)² and (1+q)/(1-q), q away from 1.
func eulerTerms(q ComplexNode) (csc2, cot ComplexNode) {
	d := ComplexNode{OneMinus(q.Re), Neg(q.Im)}
	inv := d.inverse(d.Norm2())
	return q.mul(inv.square()), ComplexNode{AddScalar(MulScalar(inv.Re, 2), -1), MulScalar(inv.Im, 2)}
}

// sums returns Σ csc² a_n and Σ csc² a_n cot a_n.
func (r rowTerms) sums() (csc2, csc2cot ComplexNode) {
	return r.csc2.sumLast().scale(-4), r.csc2cot.sumLast().timesI().scale(4)
}

// central returns csc² a and csc² a·cot a by (2.8), accurate to all digits near the pole, and [cos 2Re a, sin 2Re a].
// With E = exp(-|Im a|), (1+E²)/2 = C, and S = C·tanh(Im a), which is E·sinh(Im a),
//
//	|E sin a|² = E² sin² Re a + S²,   csc² a = E² conj(E sin a)²/|E sin a|⁴,
//	cot a = (½ E² sin 2Re a - i C S)/|E sin a|².
func central(a ComplexNode, poleRadius2 *Node) (csc2, csc2cot, twice ComplexNode) {
	sin2 := Square(Sin(a.Re)) // not from cos 2Re a, which has lost its digits near the pole
	twice = ComplexNode{OneMinus(MulScalar(sin2, 2)), Sin(MulScalar(a.Re, 2))}
	fall := Exp(MulScalar(Abs(a.Im), -2)) // E²
	c := MulScalar(AddScalar(fall, 1), 0.5)
	s := Mul(c, Tanh(a.Im))
	s2, cs := Square(s), Mul(c, s)

	inv := Inverse(Max(Add(Mul(sin2, fall), s2), poleRadius2))
	square := ComplexNode{Sub(Mul(sin2, Square(c)), Mul(OneMinus(sin2), s2)), Neg(Mul(twice.Im, cs))}
	csc2 = square.Times(Mul(fall, Square(inv)))
	cot := ComplexNode{Mul(MulScalar(Mul(twice.Im, fall), 0.5), inv), Neg(Mul(cs, inv))}
	return csc2, csc2.mul(cot), twice
}
