// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/kernel"
)

// Sum evaluates ℘ and ℘′ by the truncated definition, as the paper and the released code do:
//
//	℘(z)  =  1/z² + Σ [1/(z-w)² - 1/w²],   ℘′(z) = -2/z³ + Σ -2/(z-w)³,   w = 2mω1 + 2inω3′,  0 < max(|m|,|n|) <= Cut
//
// The truncation error of ℘ is about |z|²/(16 ω1⁴ (Cut+½)²) on the square lattice, 7e-5 over a patch grid at Cut 12.
// Use P unless you need the sum itself.
type Sum struct {
	Cut       int     // largest |m|, |n|; (2·Cut+1)² - 1 terms
	Kappa     float64 // κ: terms with |z-w| <= κε are dropped, |z| <= κε gives CLarge; ε = 1e-8
	CLarge    float64 // C_large, real value of both functions at the origin
	TermClip  float64 // bound on |Re| and |Im| of every term of the sum
	FinalClip float64 // bound on |Re| and |Im| of the results
}

// ReleasedSum has the constants of the released pre-training encoder, with 624 terms.
var ReleasedSum = Sum{Cut: 12, Kappa: 15, CLarge: 500, TermClip: 5e3, FinalClip: 1e4}

// P returns the truncated ℘(z) and ℘′(z), differentiable with respect to z and ω3′ (with zero gradient where a clip is
// active). Shapes are as for P; the half-periods may have z's shape, with equal elements.
//
// The gradient of the sums is written out, and computes the terms again: XLA stores none of them for it.
func (s Sum) P(z ComplexNode, omega1, omega3p *Node) (p, pPrime ComplexNode) {
	omega3p = like(omega3p, z.Re)
	sums := kernel.Unstack(kernel.Several([]*Node{z.Re, z.Im, omega3p}, 1, func() []*Node {
		return []*Node{s.terms(z, first(omega1), first(omega3p)).sums()}
	}, func(_ int, dy *Node) []*Node {
		return s.terms(ComplexNode{z.Re, kernel.Once(z.Im)[0]}, first(omega1), first(omega3p)).gradient(kernel.Unstack(dy))
	})[0])

	atPole, inv := s.inverse(z)
	inv2 := inv.square()
	limit := ComplexNode{AddScalar(ZerosLike(z.Re), s.CLarge), ZerosLike(z.Im)}
	p = where(atPole, limit, inv2.Add(ComplexNode{sums[0], sums[1]}))
	pPrime = where(atPole, limit, inv2.mul(inv).scale(-2).Add(ComplexNode{sums[2], sums[3]}))
	return clip(p, s.FinalClip), clip(pPrime, s.FinalClip)
}

// first is an element of x, a scalar.
func first(x *Node) *Node { return Reshape(SliceAxis(Reshape(x, -1), 0, AxisElem(0))) }

// sumTerms holds the powers of 1/(z-w), [..., terms], and of 1/w, w = 2mω1 + 2inω3′, [1, …, 1, terms].
type sumTerms struct {
	Sum
	n            *Node
	inv2, inv3   ComplexNode
	wInv2, wInv3 ComplexNode
	dropped      *Node
}

// terms evaluates the terms for scalar half-periods.
func (s Sum) terms(z ComplexNode, omega1, omega3p *Node) sumTerms {
	rank := z.Re.Rank() + 1
	row := func(x []float64) *Node { return AlongLast(ConstAsDType(z.Re.Graph(), z.Re.DType(), x), rank) }
	m, n := latticeIndices(s.Cut)
	t := sumTerms{Sum: s, n: MulScalar(row(n), 2)}
	w := ComplexNode{Mul(MulScalar(row(m), 2), omega1), Mul(t.n, omega3p)}
	var inv ComplexNode
	t.dropped, inv = s.inverse(z.Expand().sub(w))
	t.inv2 = inv.square()
	t.inv3 = t.inv2.mul(inv)
	inv = w.inverse(w.Norm2())
	t.wInv2 = inv.square()
	t.wInv3 = t.wInv2.mul(inv)
	return t
}

// parts are the real and imaginary parts of 1/(z-w)² - 1/w² and -2/(z-w)³.
func (t sumTerms) parts() []*Node {
	p, pPrime := t.inv2.sub(t.wInv2), t.inv3.scale(-2)
	return []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
}

// sums adds up the clipped parts, [4, ...].
func (t sumTerms) sums() *Node {
	parts := t.parts()
	for i, x := range parts {
		parts[i] = Where(t.dropped, ZerosLike(x), ClipScalar(x, -t.TermClip, t.TermClip))
	}
	return t.Add(parts...)
}

// gradient returns the gradients of Re z, Im z and ω3′ from those of the four sums.
func (t sumTerms) gradient(dy []*Node) []*Node {
	for i, x := range t.parts() {
		constant := Or(t.dropped, GreaterThan(Abs(x), Scalar(x.Graph(), x.DType(), t.TermClip)))
		dy[i] = Where(constant, ZerosLike(x), BroadcastToShape(dy[i], x.Shape()))
	}
	p, pPrime := ComplexNode{dy[0], dy[1]}, ComplexNode{dy[2], dy[3]}
	z := p.mul(t.inv3.scale(-2).conj()).Add(pPrime.mul(t.inv2.square().scale(6).conj()))
	w := p.mul(t.wInv3.scale(2).conj()).sub(z)
	sum := func(x *Node) *Node { return kernel.Unstack(t.Add(x))[0] } // one by one: not all are always needed
	return []*Node{sum(z.Re), sum(z.Im), sum(Mul(w.Im, t.n))}
}

// Add adds up the last axis of each x, and stacks the sums. It adds up an eighth of the terms at a time: a GPU then has
// enough rows to add that XLA computes the terms in the same kernel and does not store them.
func (s Sum) Add(xs ...*Node) *Node {
	dims := append(slices.Clone(xs[0].Shape().Dimensions[:xs[0].Rank()-1]), 8, s.Cut*(s.Cut+1)/2)
	for i, x := range xs {
		xs[i] = ReduceSum(Reshape(x, dims...), -1)
	}
	return ReduceSum(Stack(kernel.Once(xs...), 0), -1)
}

// inverse returns 1/d and a mask where |d| is below the release's threshold; there it is no inverse, but finite.
func (s Sum) inverse(d ComplexNode) (tooSmall *Node, inv ComplexNode) {
	norm2, radius := d.Norm2(), s.Kappa/1e8 // κε
	tooSmall = LessOrEqual(norm2, Scalar(norm2.Graph(), norm2.DType(), radius*radius))
	return tooSmall, d.conj().Times(Inverse(Where(tooSmall, OnesLike(norm2), norm2)))
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
