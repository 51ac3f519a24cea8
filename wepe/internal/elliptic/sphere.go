// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/kernel"
)

// Sphere returns S(α_scale·w) and S(α_scale·w′), ℘ and ℘′ of a lattice as points of the Riemann sphere, mathematics.md
// section 14: as wepe.Sphere on a rectangular lattice, and on an oblique one with the incentre of the triangle of the
// roots in place of e2, (14.2) and (14.14). z may have any shape; alphaScale is a positive scalar of its dtype, or has
// its shape. The results are [z's shape..., 3].
//
// Method: (14.15), quotients N/D of theta functions without a common zero, so that poles need no special case. Error: 8
// roundings, each as if of an input or of the result. In a cell t times as long as wide, S(w′) changes as fast as
// exp(πt/2) at a half-period, where rounding z may move it from pole to pole; from t = 20 in float32 and 176 in float64
// on, the result there is (0, 0, 1).
func Sphere(z ComplexNode, l Basis, alphaScale *Node) (point, prime *Node) {
	at := l.at(z)
	if !l.Oblique {
		zero := ZerosLike(z.Re)
		uk := at.k.unit()
		k := sphereConstants{zero: ComplexNode{uk.square().Re, zero}, pole: OnesLike(zero), alphaScale: like(alphaScale,
			zero)}
		k.offset, k.phase = ComplexNode{zero, zero}, uk.square().mul(uk).timesI().scale(-root4of3)
		return at.onSphere(k)
	}

	// Squared: t2 = θ2² at 0, its direction u2, and |θ2|⁴; t3 and t4 likewise.
	t2, t3, t4 := at.thetaConstants()
	t2, t3, t4 = t2.square(), t3.square(), t4.square()
	size2, size3, size4 := t2.Norm2(), t3.Norm2(), t4.Norm2()
	u2 := t2.unit().mul(at.phase(0.5))
	far := Mul(Sqrt(size2), Exp(MulScalar(at.gap, -0.5))) // |θ2|²; thetaConstants omits q^¼
	total := Add(Add(Square(far), size3), size4)
	uk := at.k.unit()
	uk2 := uk.square()
	return at.onSphere(sphereConstants{
		offset:     u2.square().Times(size4).sub(t4.square()).Times(Div(far, total)).mul(uk2),
		zero:       u2.mul(t4).mul(uk2),
		pole:       Sqrt(MulScalar(Div(Mul(size3, size4), total), 2)),
		phase:      uk2.mul(uk).mul(u2).mul(t3.mul(t4).unit()).timesI().scale(-root4of3),
		alphaScale: like(alphaScale, z.Re),
	})
}

// root4of3 is 3^¼, (14.3).
const root4of3 = 1.31607401295249246

// sphereConstants holds the constants of a lattice in (14.14):
//
//	w = (offset·θ1² + zero·θ3²)/(pole·θ1²),   w′ = phase·(-i θ2θ3θ4/θ1³)
type sphereConstants struct {
	offset, zero, phase ComplexNode
	pole, alphaScale    *Node
}

// onSphere returns S(α_scale·w) and S(α_scale·w′), [..., 3].
//
// Gradients are written out, because XLA computes most parts of the graph of autodiff many times: thetas have their own
// derivatives, quotient has the rest.
func (c cellPoint) onSphere(k sphereConstants) (point, prime *Node) {
	inputs := []*Node{c.a.Re, c.a.Im, c.tau.Re, c.tau.Im, k.offset.Re, k.offset.Im, k.zero.Re, k.zero.Im, k.phase.Re,
		k.phase.Im, k.pole, k.alphaScale}
	var t thetas
	var w, wPrime quotient
	values := kernel.Several(inputs, 2, func() []*Node {
		t = c.thetas()
		w, wPrime = t.quotients(k)
		return []*Node{w.onSphere(), wPrime.onSphere()}
	}, func(i int, dy *Node) []*Node {
		if t.t1.byV.Re == nil {
			t.differentiate()
		}
		if i == 0 {
			return t.pointGradient(k, w, dy)
		}
		return t.primeGradient(k, wPrime, dy)
	})
	return values[0], values[1]
}

// quotient is the point n/d of the sphere.
type quotient struct{ n, d ComplexNode }

// quotients returns α_scale·w and α_scale·w′.
func (t *thetas) quotients(k sphereConstants) (w, wPrime quotient) {
	bottom := t.bottom.value.mul(t.t1.value.square())
	top := t.t3.value.square().Times(t.top)
	w = quotient{k.offset.mul(bottom).Add(k.zero.mul(top)).Times(k.alphaScale), bottom.Times(k.pole)}
	product := t.t2.value.mul(t.t3.value).mul(t.t4.value)
	return w, quotient{k.phase.Times(k.alphaScale).mul(product.Times(t.top)), bottom.mul(t.t1.value)}
}

// pointGradient returns the gradients of the inputs of cellPoint.onSphere from the gradient dy of S(α_scale·w).
func (t *thetas) pointGradient(k sphereConstants, w quotient, dy *Node) []*Node {
	top := t.t3.mul(t.t3).Times(t.top)
	bottom := t.bottom.mul(t.t1.mul(t.t1))
	factor := w.pullBack(dy).Times(Mul(k.alphaScale, k.pole))
	byV, byTau := top.slopes(bottom)
	ofD := factor.mul(bottom.value)
	scaled := factor.mul(k.zero)
	none := ZerosLike(k.pole)
	return slices.Concat(byParts(scaled.mul(byV).timesI()), byParts(scaled.mul(byTau).timesI().scale(math.Pi)),
		byParts(ofD.mul(bottom.value)), byParts(ofD.mul(top.value)), []*Node{none, none,
			Neg(Div(ofD.mul(w.n).Re, Mul(k.alphaScale, k.pole))), Div(ofD.mul(w.n).Re, Square(k.alphaScale))})
}

// primeGradient is pointGradient for S(α_scale·w′).
func (t *thetas) primeGradient(k sphereConstants, w quotient, dy *Node) []*Node {
	top := t.t2.mul(t.t3).mul(t.t4).Times(t.top)
	bottom := t.bottom.mul(t.t1.mul(t.t1)).mul(t.t1)
	factor := w.pullBack(dy).Times(k.alphaScale)
	byV, byTau := top.slopes(bottom)
	scaled := factor.mul(k.phase)
	none := ZerosLike(k.pole)
	return slices.Concat(byParts(scaled.mul(byV).timesI()), byParts(scaled.mul(byTau).timesI().scale(math.Pi)),
		[]*Node{none, none, none, none}, byParts(factor.mul(bottom.value).mul(top.value)), []*Node{none,
			Div(factor.mul(bottom.value).mul(w.n).Re, Square(k.alphaScale))})
}

// byParts returns the gradients of Re x and Im x, given g of Re(g·δx).
func byParts(g ComplexNode) []*Node { return []*Node{g.Re, Neg(g.Im)} }

// undefined reports where both n and d underflow: for example near ω1 in a long cell, where the rounding of z decides
// between the sides of the sphere.
func (q quotient) undefined() *Node {
	return LessThan(Add(q.n.Norm2(), q.d.Norm2()), Scalar(q.n.Re.Graph(), q.n.Re.DType(), leastNorm2(q.n.Re.DType())))
}

// leastNorm2 is the smallest |n|² + |d|² that counts as nonzero: its inverse times 2²⁰, for α_scale, must be finite,
// and so must the square of its last digit.
func leastNorm2(dtype dtypes.DType) float64 {
	if dtype == dtypes.Float64 {
		return 0x1p-800
	}
	return 0x1p-90
}

// onSphere returns S(n/d), [..., 3], (14.4). The three parts are sums of products with constants and not a Stack, for
// which XLA would compute n and d once per part.
func (q quotient) onSphere() *Node {
	undefined, one := q.undefined(), OnesLike(q.n.Re)
	n, d := where(undefined, ComplexNode{one, ZerosLike(one)}, q.n), where(undefined, zeros(q.d), q.d)
	top, bottom := n.Norm2(), d.Norm2()
	cross := n.mul(d.conj()).scale(2)
	inverse := Inverse(Add(top, bottom))
	var parts [3]*Node // [..., 3] each
	for i, part := range []*Node{cross.Re, cross.Im, Sub(top, bottom)} {
		unit := make([]float64, 3)
		unit[i] = 1
		parts[i] = Mul(InsertAxes(Mul(part, inverse), -1),
			AlongLast(ConstAsDType(part.Graph(), part.DType(), unit), part.Rank()+1))
	}
	return Add(Add(parts[0], parts[1]), parts[2])
}

// pullBack maps a gradient dy of S(n/d), [..., 3], to κ such that Re(κ(d·δn - n·δd)) is the change: for γ = dy1 + i·dy2
//
//	κ = 2 (γ̄ d̄² - γ n̄² + 2 dy3 n̄ d̄)/(|n|² + |d|²)²
func (q quotient) pullBack(dy *Node) ComplexNode {
	undefined := q.undefined()
	inverse := Inverse(Where(undefined, OnesLike(q.n.Re), Add(q.n.Norm2(), q.d.Norm2())))
	n, d := q.n.conj().Times(inverse), q.d.conj().Times(inverse)
	gamma, height := ComplexNode{Channel(dy, 0), Channel(dy, 1)}, Channel(dy, 2)
	sum := gamma.conj().mul(d.square()).sub(gamma.mul(n.square())).Add(n.mul(d).Times(height).scale(2)).scale(2)
	return where(undefined, zeros(sum), sum)
}

// conj is ā.
func (a ComplexNode) conj() ComplexNode { return ComplexNode{a.Re, Neg(a.Im)} }

// unit is a/|a|, a ≠ 0.
func (a ComplexNode) unit() ComplexNode { return a.Times(Inverse(Sqrt(a.Norm2()))) }

// timesI is ia.
func (a ComplexNode) timesI() ComplexNode { return ComplexNode{Neg(a.Im), a.Re} }
