// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/kernel"
)

// cell is ℘ and ℘′ in a lattice's cell, with the terms that their gradients need.
type cell struct {
	cellPoint
	rows          rowTerms
	csc2, csc2cot ComplexNode // of the central row
	rest, restCot ComplexNode // c(τ) + Σ csc² a_n and Σ csc² a_n cot a_n of the others
	p, pPrime     ComplexNode
	slopes        []slope // of ℘ and ℘′, computed on first use
}

// slope holds the derivatives of ℘ or ℘′, which are analytic in z, a and b.
type slope struct{ byZ, byA, byB ComplexNode }

// P returns ℘(z) and ℘′(z) as wepe.P, of any lattice.
//
// Their gradients are written out: autodiff would need three times as many operations and lose digits in the gradients
// by a and b, where the pole cancels.
func P(z ComplexNode, l Basis) (p, pPrime ComplexNode) {
	c := cell{cellPoint: l.at(z)}
	values := kernel.Several([]*Node{c.z.Re, c.z.Im, c.Basis.A.Re, c.Basis.A.Im, c.B.Re, c.B.Im}, 4, func() []*Node {
		c.evaluate()
		return []*Node{c.p.Re, c.p.Im, c.pPrime.Re, c.pPrime.Im}
	}, c.gradient)
	return ComplexNode{values[0], values[1]}, ComplexNode{values[2], values[3]}
}

func (c *cell) evaluate() {
	k2 := c.k.square()
	radius2 := MaxScalar(MulScalar(StopGradient(c.k.Norm2()), steepestPole*steepestPole), PoleRadius*PoleRadius)
	var twice ComplexNode
	c.csc2, c.csc2cot, twice = central(c.a, radius2)
	c.rows = newRows(twice, c.a.Im, c.gap, c.shift, c.rowPairs())
	csc2, csc2cot := c.rows.sums()
	c.rest, c.restCot = csc2.Add(c.constant()), csc2cot
	c.p = c.csc2.Add(c.rest).mul(k2)
	c.pPrime = c.csc2cot.Add(c.restCot).mul(k2.mul(c.k)).scale(-2)
}

// gradient returns the gradients of z, a and b from the gradient dy of value i, in the order of P, by (3.1).
func (c *cell) gradient(i int, dy *Node) (out []*Node) {
	if c.slopes == nil {
		c.slopes = c.differentiate()
	}
	s := c.slopes[i/2]
	for _, by := range []ComplexNode{s.byZ, s.byA, s.byB} {
		re, im := by.Re, Neg(by.Im) // of a real part
		if i%2 == 1 {
			re, im = by.Im, by.Re
		}
		out = append(out, Mul(dy, re), Mul(dy, im))
	}
	return out
}

// differentiate returns the derivatives of ℘ and ℘′: by z; by b after (3.2) and (3.3), to which the central row and its
// pole contribute nothing; and by a from these two, because ℘ and ℘′ are homogeneous of degrees -2 and -3, (3.13). The
// pole cancels there, see homogeneous.
func (c *cell) differentiate() []slope {
	pairs := c.rowPairs()
	index := AlongLast(ConstAsDType(c.gap.Graph(), c.gap.DType(), rowIndices(pairs)), c.z.Re.Rank()+1)
	k2 := c.k.square()
	k3, k4 := k2.mul(c.k), k2.square()

	// csc² a (2 - 3 csc² a) is -8 of these, and (csc² a)″ is 16; of the central row it is 6 csc⁴ - 4 csc².
	second := c.rows.csc2.Add(c.rows.csc2.square().scale(6))
	restSecond := second.sumLast().scale(16)
	centralSecond := c.csc2.square().scale(6).sub(c.csc2.scale(4))

	pByB := c.rows.csc2cot.Times(index).sumLast().Add(c.constantSlope()).timesI().mul(k3).scale(16)
	primeByB := second.Times(index).sumLast().mul(k4).scale(-32)

	ofP, ofPrime := c.homogeneous(centralSecond)
	pByA := c.rest.sub(c.a.mul(c.restCot)).Add(ofP).mul(k2).scale(-2)
	primeByA := c.restCot.scale(6).sub(c.a.mul(restSecond)).Add(ofPrime).mul(k3)
	over := c.k.scale(2 / math.Pi) // 1/a
	return []slope{
		{c.pPrime, pByA.sub(c.B.mul(pByB)).mul(over), pByB},
		{restSecond.Add(centralSecond).mul(k4), primeByA.sub(c.B.mul(primeByB)).mul(over), primeByB},
	}
}

// seriesRadius is |a| below which homogeneous sums series. The Laurent series converges for |a| < π.
const seriesRadius = 0.75

// homogeneous returns csc² a - a csc² a cot a and 6 csc² a cot a - a (csc² a)″ of the central row. Near a pole at mπ
// their principal parts cancel except for the terms times mπ. There both are computed as series in a - mπ, of csc² a =
// 1/a² + Σ c_j a^{2j},
//
//	Σ (1+j) c_j a^{2j},   -Σ 2j(2j+2) c_j a^{2j-1}.
//
// Both forms are accurate at seriesRadius.
func (c *cell) homogeneous(second ComplexNode) (ofP, ofPrime ComplexNode) {
	multiple := MulScalar(Floor(AddScalar(MulScalar(c.a.Re, 1/math.Pi), 0.5)), math.Pi)
	a := ComplexNode{Sub(c.a.Re, multiple), c.a.Im}
	near := LessThan(a.Norm2(), MulScalar(OnesLike(c.gap), seriesRadius*seriesRadius))

	s := cscSeries(a.Re.DType())
	first, last := make([]float64, len(s)), make([]float64, len(s)-1)
	for j := range s {
		first[j] = float64(1+j) * s[j]
		if j > 0 {
			last[j-1] = -float64(2*j*(2*j+2)) * s[j]
		}
	}
	a2 := a.square()
	ofP = where(near, polynomial(first, a2).sub(c.csc2cot.Times(multiple)), c.csc2.sub(c.a.mul(c.csc2cot)))
	ofPrime = where(near, polynomial(last, a2).mul(a).sub(second.Times(multiple)),
		c.csc2cot.scale(6).sub(c.a.mul(second)))
	return ofP, ofPrime
}

// multiples are 2, 4, … 2·pairs, [1, …, 1, pairs].
func (c *cell) multiples() *Node {
	return AlongLast(Multiples(c.gap.Graph(), c.gap.DType(), 2, c.rowPairs()), c.gap.Rank()+1)
}

// step returns the terms of the rows at 0, q = exp(2inπτ), n = 1 … pairs: csc²(nπτ) = -4·csc2 and csc²(nπτ)cot(nπτ) =
// 4i·csc2cot, [..., pairs].
func (c *cell) step() rowTerms {
	twice := c.multiples()
	q := ComplexNode{Exp(Neg(Mul(twice, InsertAxes(c.gap, -1)))), nil}
	q.Im = ZerosLike(q.Re)
	if c.shift != nil {
		angle := Mul(twice, InsertAxes(c.shift, -1))
		q = ComplexNode{Mul(q.Re, Cos(angle)), Mul(q.Re, Sin(angle))}
	}
	csc2, t := eulerTerms(q)
	return rowTerms{csc2, csc2.mul(t)}
}

// constant is c(τ) = -1/3 - 2 Σ csc²(nπτ).
func (c *cell) constant() ComplexNode {
	sum := c.step().csc2.sumLast().scale(8)
	return ComplexNode{AddScalar(sum.Re, -1.0/3), sum.Im}
}

// constantSlope is 2 Σ n csc²(nπτ) cot(nπτ)/(4i), the contribution of constant to (3.2).
func (c *cell) constantSlope() ComplexNode {
	return c.step().csc2cot.Times(c.multiples()).sumLast()
}

// cscSeries returns c_j of csc² a - 1/a² = Σ c_j a^{2j}, j = 0, 1, …: enough for |a| < seriesRadius.
//
// csc² a - 1/3 is the Weierstrass function of the degenerate lattice with g2 = 4/3, g3 = 8/27.
func cscSeries(dtype dtypes.DType) []float64 {
	terms := 7 // the eighth is 4e-9 of csc² a
	if dtype == dtypes.Float64 {
		terms = 15 // the sixteenth is 5e-19
	}
	return append([]float64{1.0 / 3}, LaurentSeries(4.0/3, 8.0/27, terms-1)...)
}

// LaurentSeries returns c_n of ℘(z) = 1/z² + Σ c_n z^{2n-2}, n = 2, 3, …, by the recurrence DLMF 23.9.4.
func LaurentSeries(g2, g3 float64, terms int) []float64 {
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
	r, s := MulScalar(w.Re, 2), w.Norm2()
	last := len(c) - 1
	b2 := MulScalar(OnesLike(r), c[last])
	b1 := AddScalar(MulScalar(r, c[last]), c[last-1])
	for j := last - 2; j >= 1; j-- {
		b1, b2 = AddScalar(Sub(Mul(r, b1), Mul(s, b2)), c[j]), b1
	}
	return ComplexNode{AddScalar(Sub(Mul(w.Re, b1), Mul(s, b2)), c[0]), Mul(w.Im, b1)}
}
