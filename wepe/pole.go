// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// principal is the central row close to the pole, mathematics.md (2.12) and (2.13):
//
//	k² csc² a = 1/z² + k² s(a),   -2k³ csc² a cot a = -2/z³ + k³ s′(a),   s(a) = 1/3 + a²/15 + 2a⁴/189 + …
//
// Where near does not hold, everything is zero.
type principal struct {
	near                *Node       // |a| < seriesRadius
	p, pPrime           ComplexNode // 1/z², -2/z³
	smooth, smoothPrime ComplexNode // s(a), s′(a)
	a2                  ComplexNode // a²
}

// principalPart splits off the pole at a = k z. The scale is k as a constant: the pole does not know the lattice, and
// the scale only keeps 1/z³ and its gradients inside float32 whatever the size of the cell.
func principalPart(z, a ComplexNode, scale *Node) principal {
	w := z.times(scale)
	near := LessThan(w.norm2(), Scalar(scale.Graph(), scale.DType(), seriesRadius*seriesRadius))
	w, a = where(near, w, zeros(w)), where(near, a, zeros(a))

	p, pPrime := poleTerms(w, scale)
	s := cscSeries(a.Re.DType())
	derivative := make([]float64, len(s)-1) // of s by a²
	for j := range derivative {
		derivative[j] = float64(j+1) * s[j+1]
	}
	a2 := a.square()
	return principal{
		near:        near,
		p:           p,
		pPrime:      pPrime,
		smooth:      evenSeries(s, a2, near),
		smoothPrime: polynomial(derivative, a2).mul(a).scale(2),
		a2:          a2,
	}
}

// smoothSecond returns s″(a).
func (p principal) smoothSecond() ComplexNode {
	s := cscSeries(p.a2.Re.DType())
	second := make([]float64, len(s)-1)
	for j := range second {
		second[j] = float64((2*j+2)*(2*j+1)) * s[j+1]
	}
	return evenSeries(second, p.a2, p.near)
}

// evenSeries is Σ c_j a^{2j}, zero where near does not hold; there a is 0.
func evenSeries(c []float64, a2 ComplexNode, near *Node) ComplexNode {
	first := MulScalar(OnesLike(a2.Re), c[0])
	sum := polynomial(c[1:], a2).mul(a2)
	sum.Re = Add(sum.Re, Where(near, first, ZerosLike(first)))
	return sum
}

// poleTerms returns 1/z² and -2/z³ for z = w/scale, both 0 at w = 0.
func poleTerms(w ComplexNode, scale *Node) (p, pPrime ComplexNode) {
	inv := w.inverse(MaxScalar(w.norm2(), poleRadius*poleRadius))
	inv2, scale2 := inv.square(), Square(scale)
	return inv2.times(scale2), inv2.mul(inv).times(MulScalar(Mul(scale2, scale), -2))
}

// cscSeries returns c_j of csc² a - 1/a² = Σ c_j a^{2j}, j = 0, 1, …: enough for |a| < seriesRadius.
//
// csc² a - 1/3 is the Weierstrass function of the degenerate lattice with g2 = 4/3, g3 = 8/27.
func cscSeries(dtype dtypes.DType) []float64 {
	terms := 7 // the eighth is 4e-9 of csc² a
	if dtype == dtypes.Float64 {
		terms = 15 // the sixteenth is 5e-19
	}
	return append([]float64{1.0 / 3}, laurentSeries(4.0/3, 8.0/27, terms-1)...)
}

// laurentSeries returns c_n of ℘(z) = 1/z² + Σ c_n z^{2n-2}, n = 2, 3, …, by the recurrence DLMF 23.9.4.
func laurentSeries(g2, g3 float64, terms int) []float64 {
	c := make([]float64, terms+2) // 0 and 1 stay 0
	c[2], c[3] = g2/20, g3/28
	for n := 4; n < len(c); n++ {
		for m := 2; m <= n-2; m++ {
			c[n] += c[m] * c[n-m]
		}
		c[n] *= 3 / float64((2*n+1)*(n-3))
	}
	return c[2:]
}

// polynomial evaluates Σ c_j w^j with real coefficients at a complex point by division through w² - 2Re(w)w + |w|²,
// which needs half the products of Horner's rule (Knuth, The Art of Computer Programming 2, 4.6.4).
func polynomial(c []float64, w ComplexNode) ComplexNode {
	r, s := MulScalar(w.Re, 2), w.norm2()
	last := len(c) - 1
	b2 := MulScalar(OnesLike(r), c[last])
	b1 := AddScalar(MulScalar(r, c[last]), c[last-1])
	for j := last - 2; j >= 1; j-- {
		b1, b2 = AddScalar(Sub(Mul(r, b1), Mul(s, b2)), c[j]), b1
	}
	return ComplexNode{AddScalar(Sub(Mul(w.Re, b1), Mul(s, b2)), c[0]), Mul(w.Im, b1)}
}
