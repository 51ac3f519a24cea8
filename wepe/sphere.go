// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
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
	at := rectangle(omega1, omega3p).at(z)
	uk, t := at.k.unit(), at.thetas()
	top := t.t3.square().times(Mul(t.numerator, uk.square().Re)) // k² is real
	turn := uk.square().mul(uk).timesI().scale(-root4of3)
	topPrime := turn.mul(t.t2.mul(t.t3).mul(t.t4)).times(t.numerator)
	bottom := t.denominator.mul(t.t1.square())
	return onSphere(top.times(alphaScale), bottom), onSphere(topPrime.times(alphaScale), bottom.mul(t.t1))
}

// SphereOblique is Sphere for the lattice {2mω1 + 2nω3} with complex ω3, Im ω3 > 0, where the incentre of the triangle
// of the roots takes the place of e2: (14.2) and (14.14).
func SphereOblique(z ComplexNode, omega1 *Node, omega3 ComplexNode, alphaScale *Node) (point, prime *Node) {
	at := reducedBasis(omega1, omega3).at(z)
	t, zero := at.thetas(), at.thetaConstants()

	// With squares: t2 = θ2² at 0 and so on, its direction u2, and |θ2|⁴.
	t2, t3, t4 := zero.t2.square(), zero.t3.square(), zero.t4.square()
	size2, size3, size4 := t2.norm2(), t3.norm2(), t4.norm2()
	u2 := t2.unit()
	far := Mul(Sqrt(size2), Exp(MulScalar(at.gap, -0.5))) // |θ2|², of which thetaConstants leaves q^¼ out
	rotated := ComplexNode{Cos(MulScalar(at.shift, 0.5)), Sin(MulScalar(at.shift, 0.5))}
	u2 = u2.mul(rotated)
	total := Add(Add(Square(far), size3), size4)
	uk := at.k.unit()
	uk2 := uk.square()
	lean := u2.square().times(size4).sub(t4.square()).times(Div(far, total)).mul(uk2)
	pole := Sqrt(MulScalar(Div(Mul(size3, size4), total), 2))

	bottom := t.denominator.mul(t.t1.square())
	top := lean.mul(bottom).add(u2.mul(t4).mul(uk2).mul(t.t3.square().times(t.numerator)))
	turn := uk2.mul(uk).mul(u2).mul(t3.mul(t4).unit()).timesI().scale(-root4of3)
	topPrime := turn.mul(t.t2.mul(t.t3).mul(t.t4)).times(t.numerator)
	return onSphere(top.times(alphaScale), bottom.times(pole)), onSphere(topPrime.times(alphaScale), bottom.mul(t.t1))
}

// root4of3 is 3^¼, (14.3).
const root4of3 = 1.31607401295249246

// thetas are the theta functions at v as (14.16) has them, t1 and t2 less the factors ∓i q^¼ and e^{iv}·m, where m =
// exp(2 max(0, Im v)) keeps every term next to 1 at most. Then θ3(v)²/θ1(v)² is N/D with N = numerator·t3² and D =
// denominator·t1², and with one t1 more below that is -i θ2(v)θ3(v)θ4(v)/θ1(v)³ for N = numerator·t2·t3·t4, (14.17).
//
// m is a constant to the gradient: it drops out of N/D. So nothing here depends on the sign of Im v, which rounding
// decides on a line through the poles, nor on periods in Re v.
type thetas struct {
	t1, t2, t3, t4 ComplexNode
	numerator      *Node       // 1/max(1, |X|)
	denominator    ComplexNode // -X/max(1, |X|), |X| = exp(2|Im v| - gap/2)
}

// thetaTerms is where the series end on each side: for a reduced basis the next terms are below |q|¹² = 2e-14, |q|²⁰.
func thetaTerms(dtype dtypes.DType) int {
	if dtype == dtypes.Float64 {
		return 4
	}
	return 3
}

// thetas evaluates them at kz.
func (c cellPoint) thetas() thetas {
	double := c.a.scale(2)
	up := StopGradient(MaxScalar(double.Im, 0)) // log m
	last := thetaTerms(c.gap.DType())
	var t thetas
	t.t1, t.t2 = c.thetaSums(double, up, -last, last-1, func(n int) int { return n * (n + 1) })
	t.t4, t.t3 = c.thetaSums(double, ZerosLike(up), -last, last, func(n int) int { return n * n })

	level := Sub(Sub(MulScalar(up, 2), double.Im), MulScalar(c.gap, 0.5)) // log |X|
	larger := StopGradient(Abs(level))
	angle := double.Re
	if c.shift != nil {
		angle = Add(angle, MulScalar(c.shift, 0.5))
	}
	size := Neg(Exp(MulScalar(Sub(level, larger), 0.5)))
	t.numerator = Exp(MulScalar(Add(level, larger), -0.5))
	t.denominator = ComplexNode{Mul(size, Cos(angle)), Mul(size, Sin(angle))}
	return t
}

// thetaSums returns Σ (-1)ⁿ q^{e(n)} Q^n and Σ q^{e(n)} Q^n over n = first … last, q = exp(iπτ), Q = exp(i·double), all
// divided by exp(fall).
func (c cellPoint) thetaSums(double ComplexNode, fall *Node, first, last int, e func(n int) int) (alternating,
	plain ComplexNode) {
	var quadratic, linear, sign []float64
	for n := first; n <= last; n++ {
		quadratic, linear = append(quadratic, float64(e(n))), append(linear, float64(n))
		sign = append(sign, float64(1-2*(n&1)))
	}
	row := func(x *Node) *Node { return alongLast(x, fall.Rank()+1) } // [terms] to [..., terms]
	constant := func(x []float64) *Node { return ConstAsDType(c.gap.Graph(), c.gap.DType(), x) }

	double = double.expand().times(row(constant(linear))) // [..., terms]
	decay := Add(Add(row(Mul(constant(quadratic), c.gap)), double.Im), InsertAxes(fall, -1))
	angle := double.Re
	if c.shift != nil {
		angle = Add(angle, row(Mul(constant(quadratic), c.shift)))
	}
	r := Exp(Neg(decay)) // hardly above 1
	term := ComplexNode{Mul(r, Cos(angle)), Mul(r, Sin(angle))}
	return term.times(row(constant(sign))).sumLast(), term.sumLast()
}

// thetaConstants returns θ2/q^¼, θ3 and θ4 at 0, scalars.
func (c cellPoint) thetaConstants() (t thetas) {
	zero := ZerosLike(c.gap)
	origin, last := ComplexNode{zero, zero}, thetaTerms(zero.DType())
	_, t.t2 = c.thetaSums(origin, zero, -last, last-1, func(n int) int { return n * (n + 1) })
	t.t4, t.t3 = c.thetaSums(origin, zero, -last, last, func(n int) int { return n * n })
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
