// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// basis holds half-periods a and b of a lattice, reduced as in (11.1): 2a is next to the shortest period, and
// b/a is in the upper half-plane between its two neighbours there.
//
// The basis changes with ω3, so the graph chooses it. Lattices on the border between two bases are common: squares,
// rhombs and hexagons lie on it, and training often starts there. Both bases are valid there, but one must be used
// throughout, and rounding may decide differently in different places (elliptic.go). So borderShift moves the borders
// away from all symmetric lattices; a lattice or a point is then within a rounding error of a border only by chance.
type basis struct {
	a, b    ComplexNode
	oblique bool // a·b is not imaginary
}

const (
	// borderShift moves a border between two choices, in units of the chosen period. It is no simple fraction, and small
	// enough for series that converge up to the middle.
	borderShift = 0.0137

	// shorter is the ratio of lengths squared below which another period is taken for the shorter one.
	shorter = 0.97

	// basisSteps is the number of steps of (11.1) in a graph. Nine suffice for Im(ω3/ω1) = 1e-6, the smallest ratio that
	// minOmega3 and maxOmega3 allow.
	basisSteps = 10
)

// rectangle is the basis of the lattice {2mω1 + 2inω3′}: rows along the shorter period.
func rectangle(omega1, omega3p *Node) basis {
	zero := ZerosLike(omega1)
	turned := LessThan(omega3p, MulScalar(omega1, shorter))
	return basis{
		a: where(turned, ComplexNode{zero, omega3p}, ComplexNode{omega1, zero}),
		b: where(turned, ComplexNode{Neg(omega1), zero}, ComplexNode{zero, omega3p}),
	}
}

// reducedBasis applies (11.1) to ω1 and ω3, Im ω3 > 0.
func reducedBasis(omega1 *Node, omega3 ComplexNode) basis {
	a, b := ComplexNode{omega1, ZerosLike(omega1)}, omega3
	translate := func() {
		n := rounded(Div(Add(Mul(b.Re, a.Re), Mul(b.Im, a.Im)), a.norm2())) // Re(b/a)
		b = b.sub(a.times(n))
	}
	for range basisSteps {
		translate()
		turn := LessThan(b.norm2(), MulScalar(a.norm2(), shorter))
		a, b = where(turn, b, a), where(turn, a.scale(-1), b)
	}
	translate()
	return basis{a, b, true}
}

// rounded is an integer next to x, a constant to the gradient.
func rounded(x *Node) *Node { return StopGradient(Floor(AddScalar(x, 0.5-borderShift))) }

// cellPoint is a point between the rows of a lattice, in units of 1/k, k = π/(2a): rows run along the real axis, their
// poles are π apart, and neighbouring rows are shifted by shift + i·gap.
type cellPoint struct {
	basis
	k, tau     ComplexNode
	gap, shift *Node       // πIm τ, πRe τ; shift is nil for 0
	z, a       ComplexNode // z less a multiple of 2b, and kz: |Im a| is at most gap/2 + π·borderShift
}

// at returns z in the lattice. All fields have the shape of z, those of the lattice too: autodiff then adds up the
// points' gradients once, at the end, and a compiler needs no kernel for each.
func (l basis) at(z ComplexNode) cellPoint {
	l.a, l.b = l.a.like(z.Re), l.b.like(z.Re)
	inverse := l.a.inverse(l.a.norm2())
	c := cellPoint{basis: l, k: inverse.scale(math.Pi / 2), tau: l.b.mul(inverse)}
	c.gap = MulScalar(c.tau.Im, math.Pi)
	if l.oblique {
		c.shift = MulScalar(c.tau.Re, math.Pi)
	}
	height := AddScalar(z.mul(c.k).Im, -math.Pi*borderShift)
	n := StopGradient(Floor(AddScalar(Div(height, c.gap), 0.5)))
	c.z = z.sub(l.b.times(n).scale(2))
	c.a = c.z.mul(c.k)
	return c
}
