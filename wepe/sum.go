// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
)

// latticeSum evaluates ℘ and ℘′ by the truncated definition, as the paper and the released code do:
//
//	℘(z)  =  1/z² + Σ [1/(z-w)² - 1/w²],   ℘′(z) = -2/z³ + Σ -2/(z-w)³,   w = 2mω1 + 2inω3′,  0 < max(|m|,|n|) <= Cut
//
// The truncation error of ℘ is about |z|²/(16 ω1⁴ (Cut+½)²) on the square lattice, 4e-5 over a patch grid at Cut 12.
// Use P unless you need the sum itself.
type latticeSum struct {
	Cut       int     // largest |m|, |n|; (2·Cut+1)² - 1 terms
	Kappa     float64 // κ: terms with |z-w| <= κε are dropped, |z| <= κε gives CLarge; ε = 1e-8
	CLarge    float64 // C_large, real value of both functions at the origin
	TermClip  float64 // bound on |Re| and |Im| of every term of the sum
	FinalClip float64 // bound on |Re| and |Im| of the results
}

// releasedSum has the constants of the released pre-training encoder, with 624 terms.
var releasedSum = latticeSum{Cut: 12, Kappa: 15, CLarge: 500, TermClip: 5e3, FinalClip: 1e4}

// P returns the truncated ℘(z) and ℘′(z), differentiable with respect to z and both half-periods (with zero gradient
// where a clip is active). Shapes are as for the function P; the graph stores tensors of z's size times the number of
// terms.
func (s latticeSum) P(z ComplexNode, omega1, omega3p *Node) (p, pPrime ComplexNode) {
	g, dtype := omega1.Graph(), omega1.DType()
	m, n := latticeIndices(s.Cut)
	w := ComplexNode{ // [terms]
		MulScalar(Mul(ConstAsDType(g, dtype, m), omega1), 2),
		MulScalar(Mul(ConstAsDType(g, dtype, n), omega3p), 2),
	}
	rank := z.Re.Rank() + 1
	row := func(x ComplexNode) ComplexNode { return ComplexNode{alongLast(x.Re, rank), alongLast(x.Im, rank)} }

	dropped, inv := s.inverse(z.expand().sub(row(w))) // [..., terms]
	inv2 := inv.square()
	atInfinity := row(w.inverse(w.norm2()).square())
	terms := clip(inv2.sub(atInfinity), s.TermClip)
	termsPrime := clip(inv2.mul(inv).scale(-2), s.TermClip)
	terms = where(dropped, zeros(terms), terms).sumLast()
	termsPrime = where(dropped, zeros(termsPrime), termsPrime).sumLast()

	atPole, inv := s.inverse(z)
	inv2 = inv.square()
	limit := ComplexNode{AddScalar(ZerosLike(z.Re), s.CLarge), ZerosLike(z.Im)}
	p = where(atPole, limit, inv2.add(terms))
	pPrime = where(atPole, limit, inv2.mul(inv).scale(-2).add(termsPrime))
	return clip(p, s.FinalClip), clip(pPrime, s.FinalClip)
}

// inverse returns 1/d and a mask where |d| is below the release's threshold; there the inverse is 1.
func (s latticeSum) inverse(d ComplexNode) (tooSmall *Node, inv ComplexNode) {
	radius := s.Kappa / 1e8 // κε
	tooSmall = LessOrEqual(d.norm2(), Scalar(d.Re.Graph(), d.Re.DType(), radius*radius))
	d = where(tooSmall, ComplexNode{OnesLike(d.Re), ZerosLike(d.Im)}, d)
	return tooSmall, d.inverse(d.norm2())
}

func clip(x ComplexNode, bound float64) ComplexNode {
	return ComplexNode{ClipScalar(x.Re, -bound, bound), ClipScalar(x.Im, -bound, bound)}
}

// latticeIndices lists (m, n), max(|m|,|n|) <= cut, without the origin, in the paper's order, by modulus on the square
// lattice (this affects only rounding).
func latticeIndices(cut int) (m, n []float64) {
	var pairs [][2]int
	for i := -cut; i <= cut; i++ {
		for j := -cut; j <= cut; j++ {
			if i != 0 || j != 0 {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	modulus2 := func(p [2]int) int { return p[0]*p[0] + p[1]*p[1] }
	slices.SortStableFunc(pairs, func(a, b [2]int) int { return modulus2(a) - modulus2(b) })
	for _, p := range pairs {
		m, n = append(m, float64(p[0])), append(n, float64(p[1]))
	}
	return m, n
}
