// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/kernel"
)

// jet is an analytic function of v and τ: its value and, on request, its derivatives by iv and by iπτ.
type jet struct{ value, byV, byTau ComplexNode }

func (f jet) mul(g jet) jet {
	return jet{f.value.mul(g.value), f.byV.mul(g.value).Add(f.value.mul(g.byV)),
		f.byTau.mul(g.value).Add(f.value.mul(g.byTau))}
}

// times multiplies by a constant.
func (f jet) Times(x *Node) jet { return jet{f.value.Times(x), f.byV.Times(x), f.byTau.Times(x)} }

// slopes are the derivatives of f/g times g².
func (f jet) slopes(g jet) (byV, byTau ComplexNode) {
	return g.value.mul(f.byV).sub(f.value.mul(g.byV)), g.value.mul(f.byTau).sub(f.value.mul(g.byTau))
}

// thetas holds the theta functions at v = kz in the form of (14.16): with m = exp(2 max(0, Im v)), which keeps every
// term next to 1 at most, Q = e^{2iv} and q = e^{iπτ},
//
//	t1, t2 = (1/m) Σ (∓1)ⁿ q^{n(n+1)} Qⁿ,   t3, t4 = Σ (±1)ⁿ q^{n²} Qⁿ,   θ3²/θ1² = (top·t3²)/(bottom·t1²)
//
// and (top·t2·t3·t4)/(bottom·t1³) = -i θ2θ3θ4/θ1³, (14.17). m and top are constants to the gradient: they cancel in the
// quotients. So nothing here depends on the sign of Im v, which rounding decides on a line through poles, nor on
// periods in Re v.
type thetas struct {
	half, whole    terms // of t1 and t2, of t3 and t4
	t1, t2, t3, t4 jet
	top            *Node // 1/max(1, |X|), |X| = exp(2|Im v| - gap/2)
	bottom         jet   // -q^½ Q m²/max(1, |X|)
}

// term is a constant times q^e Qⁿ, with the exponent e of the series.
type term struct {
	value ComplexNode
	n     int
}

type terms []term

// sum returns Σ (-1)ⁿ weight(n)·value and Σ weight(n)·value.
func (s terms) sum(weight func(n int) int) (alternating, plain ComplexNode) {
	var parts [2]ComplexNode // of even and odd n
	for _, t := range s {
		w := weight(t.n)
		if w == 0 {
			continue
		}
		value, part := t.value, &parts[t.n&1]
		if w != 1 {
			value = value.scale(float64(w))
		}
		if part.Re == nil {
			*part = value
		} else {
			*part = part.Add(value)
		}
	}
	return parts[0].sub(parts[1]), parts[0].Add(parts[1])
}

func one(int) int { return 1 }

// thetas evaluates the functions at kz.
func (c *cellPoint) thetas() thetas {
	x, y := MulScalar(c.a.Re, 2), MulScalar(c.a.Im, 2)
	log := StopGradient(MaxScalar(y, 0)) // of m
	up := ComplexNode{Cos(x), Sin(x)}
	down := ComplexNode{up.Re, Neg(up.Im)}
	q := c.nome()
	above := up.Times(Exp(Neg(Add(y, c.gap)))).mulScalar(c.phase(1)) // qQ, |qQ| at most exp(2π·borderShift)
	below := down.Times(Exp(Sub(y, c.gap))).mulScalar(c.phase(1))    // q/Q
	front := Exp(Neg(log))
	t := q.thetas(above, below, ComplexNode{front, ZerosLike(front)}, down.Times(Exp(Sub(y, log))))

	level := Sub(Sub(MulScalar(log, 2), y), MulScalar(c.gap, 0.5)) // log |X|
	t.top = Exp(Neg(MaxScalar(level, 0)))
	t.bottom.value = up.mulScalar(c.phase(0.5)).Times(Neg(Exp(MinScalar(level, 0))))
	once(&t.t1.value, &t.t2.value, &t.t3.value, &t.t4.value, &t.bottom.value)
	return t
}

// phase is exp(i·multiple·shift), a scalar; an imaginary part of nil is 0.
func (c *cellPoint) phase(multiple float64) ComplexNode {
	if c.shift == nil {
		return ComplexNode{OnesLike(c.gap), nil}
	}
	angle := MulScalar(c.shift, multiple)
	return ComplexNode{Cos(angle), Sin(angle)}
}

// nome holds powers of q, scalars; an imaginary part of nil is 0.
type nome map[int]ComplexNode

func (c *cellPoint) nome() nome {
	q := nome{1: c.phase(1).mulScalar(ComplexNode{Re: Exp(Neg(c.gap))})}
	for _, p := range [][2]int{{1, 1}, {2, 2}, {2, 4}, {4, 4}, {4, 8}} {
		q[p[0]+p[1]] = q[p[0]].mulScalar(q[p[1]])
	}
	return q
}

// thetas sums the series of qQ and q/Q, of 1/m and of 1/(Qm), up to the first term that is below half a rounding for a
// reduced basis.
func (q nome) thetas(above, below, front, back ComplexNode) (t thetas) {
	for _, side := range []struct {
		power, divided ComplexNode
		n, low         func(n int) int // of the terms q^{n²} Q^±n, and of the terms of 1/m
	}{
		{above, front, func(n int) int { return n }, func(n int) int { return n }},
		{below, back, func(n int) int { return -n }, func(n int) int { return -n - 1 }},
	} {
		a, a2 := side.power, side.power.square()
		whole := []ComplexNode{a, a2.mulScalar(q[2]), a2.mulScalar(q[6]).mul(a)}
		half := []ComplexNode{side.divided, a.mulScalar(q[1]).mul(side.divided), a2.mulScalar(q[4]).mul(side.divided)}
		if a.Re.DType() == dtypes.Float64 {
			whole = append(whole, a2.square().mulScalar(q[12]))
			half = append(half, half[1].mul(a2.mulScalar(q[8])))
		}
		for i := range whole {
			t.whole = append(t.whole, term{whole[i], side.n(i + 1)})
			t.half = append(t.half, term{half[i], side.low(i)})
		}
	}
	t.t1.value, t.t2.value = t.half.sum(one)
	t.t4.value, t.t3.value = t.whole.sum(one)
	t.t3.value.Re, t.t4.value.Re = AddScalar(t.t3.value.Re, 1), AddScalar(t.t4.value.Re, 1)
	return t
}

// differentiate adds the derivatives.
func (t *thetas) differentiate() {
	twice := func(n int) int { return 2 * n }
	t.t1.byV, t.t2.byV = t.half.sum(twice)
	t.t4.byV, t.t3.byV = t.whole.sum(twice)
	t.t1.byTau, t.t2.byTau = t.half.sum(func(n int) int { return n * (n + 1) })
	t.t4.byTau, t.t3.byTau = t.whole.sum(func(n int) int { return n * n })
	t.bottom.byV, t.bottom.byTau = t.bottom.value.scale(2), t.bottom.value.scale(0.5)
	once(&t.t1.byV, &t.t2.byV, &t.t3.byV, &t.t4.byV, &t.t1.byTau, &t.t2.byTau, &t.t3.byTau, &t.t4.byTau)
}

// once forces a compiler to compute the values only once.
func once(values ...*ComplexNode) {
	var parts []*Node
	for _, v := range values {
		parts = append(parts, v.Re, v.Im)
	}
	parts = kernel.Once(parts...)
	for i, v := range values {
		*v = ComplexNode{parts[2*i], parts[2*i+1]}
	}
}

// thetaConstants returns θ2/q^¼, θ3 and θ4 at 0, scalars.
func (c *cellPoint) thetaConstants() (t2, t3, t4 ComplexNode) {
	one := ComplexNode{OnesLike(c.gap), ZerosLike(c.gap)}
	q := c.nome()
	t := q.thetas(q[1].mulScalar(one), q[1].mulScalar(one), one, one)
	return t.t2.value, t.t3.value, t.t4.value
}
