// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Sphere returns S(α_scale·w) and S(α_scale·w′), ℘ and ℘′ of the lattice {2mω1 + 2inω3′} as points of the Riemann
// sphere, mathematics.md section 14. With w = (℘ - e2)/√((e1-e2)(e2-e3)) and w′ = ℘′·(3/|Δ|)^¼,
//
//	S(w) = [2 Re w, 2 Im w, |w|² - 1]/(|w|² + 1),   S(∞) = (0, 0, 1)
//
// z may have any shape; omega1, omega3p and alphaScale are positive scalars of its dtype. The results are
// [z's shape..., 3], of norm 1, finite and differentiable at every z, poles included, and for every lattice.
//
// Method: (14.15), quotients N/D of theta functions without a common zero; no ℘, and no pole to take care of. Error: 8
// roundings, each as if of an input or of the result; in a cell t times as long as wide S changes as fast as exp(πt/2).
func Sphere(z ComplexNode, omega1, omega3p, alphaScale *Node) (point, prime *Node) {
	turned := LessThan(omega3p, omega1) // rows along the shorter period, as in P
	rowHalf, gapHalf := Where(turned, omega3p, omega1), Where(turned, omega1, omega3p)
	z = where(turned, ComplexNode{z.Im, Neg(z.Re)}, z)
	z = ComplexNode{nearest(z.Re, rowHalf), nearest(z.Im, gapHalf)}
	k := MulScalar(Inverse(rowHalf), math.Pi/2)
	v, half := upperHalf(z.times(k))
	t := thetaSeries(v, MulScalar(Mul(k, gapHalf), 2), nil)

	top := t.t3.square().times(t.numerator)
	top = where(turned, top.scale(-1), top)
	topPrime := t.t2.mul(t.t3).mul(t.t4).times(t.numerator)
	topPrime = where(turned, topPrime.scale(-1), topPrime.timesI()).scale(root4of3).times(half)
	t1Squared := t.t1.square()
	return onSphere(top.times(alphaScale), t.denominator.mul(t1Squared)),
		onSphere(topPrime.times(alphaScale), t.denominator.mul(t1Squared).mul(t.t1))
}

// SphereOblique is Sphere for the lattice {2mω1 + 2nω3} with complex ω3, Im ω3 > 0, where the incentre of the triangle
// of the roots takes the place of e2: (14.2) and (14.14).
func SphereOblique(z ComplexNode, omega1 *Node, omega3 ComplexNode, alphaScale *Node) (point, prime *Node) {
	z, k, tau := reducedByBasis(z, omega1, omega3)
	v, half := upperHalf(z.mul(k))
	gap, shift := MulScalar(tau.Im, math.Pi), MulScalar(tau.Re, math.Pi)
	t, zero := thetaSeries(v, gap, shift), thetaConstants(gap, shift)

	// With squares: t2 = θ2² at 0 and so on, its direction u2, and |θ2|⁴.
	t2, t3, t4 := zero.t2.square(), zero.t3.square(), zero.t4.square()
	size2, size3, size4 := t2.norm2(), t3.norm2(), t4.norm2()
	u2 := t2.unit()
	far := Mul(Sqrt(size2), Exp(MulScalar(gap, -0.5))) // |θ2|², of which thetaConstants leaves q^¼ out
	rotated := ComplexNode{Cos(MulScalar(shift, 0.5)), Sin(MulScalar(shift, 0.5))}
	u2 = u2.mul(rotated)
	total := Add(Add(Square(far), size3), size4)
	uk := k.unit()
	uk2 := uk.square()
	lean := u2.square().times(size4).sub(t4.square()).times(Div(far, total))
	pole := Sqrt(MulScalar(Div(Mul(size3, size4), total), 2))

	t1Squared := t.denominator.mul(t.t1.square())
	top := lean.mul(t1Squared).add(u2.mul(t4).mul(t.t3.square()).times(t.numerator)).mul(uk2)
	turn := uk2.mul(uk).mul(u2).mul(t3.mul(t4).unit()).timesI().scale(root4of3)
	topPrime := turn.mul(t.t2.mul(t.t3).mul(t.t4)).times(Mul(t.numerator, half))
	return onSphere(top.times(alphaScale), t1Squared.times(pole)),
		onSphere(topPrime.times(alphaScale), t1Squared.mul(t.t1))
}

// root4of3 is 3^¼, (14.3).
const root4of3 = 1.31607401295249246

// upperHalf returns v or -v, the one in the closed upper half-plane, and 1 or -1: w is even, w′ odd.
func upperHalf(v ComplexNode) (ComplexNode, *Node) {
	one := OnesLike(v.Im)
	half := Where(LessThan(v.Im, ZerosLike(one)), Neg(one), one)
	return v.times(half), half
}

// thetas are the series (14.16) at v, and with the factors below N/D is θ3(v)²/θ1(v)² for N = numerator·t3² and
// D = denominator·t1², (14.17). None of them exceeds the number of its terms.
type thetas struct {
	t1, t2, t3, t4 ComplexNode
	numerator      *Node       // 1/max(1, |X|)
	denominator    ComplexNode // X/max(1, |X|)
}

// thetaTerms is where the series end on each side: for a reduced basis the next terms are below |q|¹² = 7e-15, |q|²⁰.
func thetaTerms(dtype dtypes.DType) int {
	if rowPairs(dtype) == 3 { // float32
		return 3
	}
	return 4
}

// thetaSeries evaluates them for 0 <= Im v <= gap/2, τ = (shift + i·gap)/π; shift is nil for 0.
func thetaSeries(v ComplexNode, gap, shift *Node) thetas {
	last := thetaTerms(gap.DType())
	var t thetas
	t.t1, t.t2 = thetaSums(v, gap, shift, 1-last, last, func(n int) int { return n * (n - 1) })
	t.t4, t.t3 = thetaSums(v, gap, shift, -last, last, func(n int) int { return n * n })

	// |X| = exp(level). The common divisor is a constant to the gradient: S does not depend on it.
	level := Sub(MulScalar(v.Im, 2), MulScalar(gap, 0.5))
	larger := StopGradient(Abs(level))
	angle := MulScalar(v.Re, -2)
	if shift != nil {
		angle = Add(angle, MulScalar(shift, 0.5))
	}
	size := Neg(Exp(MulScalar(Sub(level, larger), 0.5)))
	t.numerator = Exp(MulScalar(Add(level, larger), -0.5))
	t.denominator = ComplexNode{Mul(size, Cos(angle)), Mul(size, Sin(angle))}
	return t
}

// thetaSums returns Σ (-1)ⁿ q^{e(n)} Q^n and Σ q^{e(n)} Q^n over n = first … last, q = exp(iπτ), Q = exp(2iv).
func thetaSums(v ComplexNode, gap, shift *Node, first, last int, e func(n int) int) (alternating, plain ComplexNode) {
	g, dtype := gap.Graph(), gap.DType()
	var quadratic, linear, sign []float64
	for n := first; n <= last; n++ {
		quadratic, linear = append(quadratic, float64(e(n))), append(linear, float64(2*n))
		sign = append(sign, float64(1-2*(n&1)))
	}
	row := func(x *Node) *Node { return alongLast(x, v.Re.Rank()+1) } // [terms] to [..., terms]
	constant := func(x []float64) *Node { return ConstAsDType(g, dtype, x) }

	decay := Add(row(Mul(constant(quadratic), gap)), Mul(row(constant(linear)), InsertAxes(v.Im, -1)))
	angle := Mul(row(constant(linear)), InsertAxes(v.Re, -1))
	if shift != nil {
		angle = Add(angle, row(Mul(constant(quadratic), shift)))
	}
	r := Exp(Neg(decay))                                        // at most 1
	term := ComplexNode{Mul(r, Cos(angle)), Mul(r, Sin(angle))} // [..., terms]
	return term.times(row(constant(sign))).sumLast(), term.sumLast()
}

// thetaConstants returns θ2/q^¼, θ3 and θ4 at 0, scalars.
func thetaConstants(gap, shift *Node) (t thetas) {
	origin := ComplexNode{ZerosLike(gap), ZerosLike(gap)}
	last := thetaTerms(gap.DType())
	_, t.t2 = thetaSums(origin, gap, shift, 1-last, last, func(n int) int { return n * (n - 1) })
	t.t4, t.t3 = thetaSums(origin, gap, shift, -last, last, func(n int) int { return n * n })
	return t
}

// onSphere returns S(n/d), [..., 3], (14.4).
func onSphere(n, d ComplexNode) *Node {
	// n and d vanish together only by underflow: within 2⁻³⁰ of ω1, say, in a cell twenty times as long as wide, where
	// the rounding of z decides which side of the sphere is seen and the slopes would leave float32.
	lost := LessThan(Add(n.norm2(), d.norm2()), Scalar(n.Re.Graph(), n.Re.DType(), 0x1p-60))
	n, d = where(lost, ComplexNode{OnesLike(n.Re), ZerosLike(n.Re)}, n), where(lost, zeros(d), d)
	top, bottom := n.norm2(), d.norm2()
	sum := Add(top, bottom)
	cross := ComplexNode{Add(Mul(n.Re, d.Re), Mul(n.Im, d.Im)), Sub(Mul(n.Im, d.Re), Mul(n.Re, d.Im))}
	return Stack([]*Node{MulScalar(Div(cross.Re, sum), 2), MulScalar(Div(cross.Im, sum), 2), Div(Sub(top, bottom), sum)},
		-1)
}

// unit is a/|a|, a ≠ 0.
func (a ComplexNode) unit() ComplexNode { return a.times(Inverse(Sqrt(a.norm2()))) }

// timesI is ia.
func (a ComplexNode) timesI() ComplexNode { return ComplexNode{Neg(a.Im), a.Re} }
