// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// Basis holds half-periods A and B of a lattice, reduced as in (11.1): 2A is next to the shortest period, and
// B/A is in the upper half-plane between its two neighbours there.
//
// The basis changes with ω3, so the graph chooses it. Lattices on the border between two bases are common: squares,
// rhombs and hexagons lie on it, and training often starts there. Both bases are valid there, but one must be used
// throughout, and rounding may decide differently in different places (elliptic.go). So borderShift moves the borders
// away from all symmetric lattices; a lattice or a point is then within a rounding error of a border only by chance.
type Basis struct {
	A, B    ComplexNode
	Oblique bool // A·B is not imaginary
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

// Rectangle is the basis of the lattice {2mω1 + 2inω3′}: rows along the shorter period.
func Rectangle(omega1, omega3p *Node) Basis {
	zero := ZerosLike(omega1)
	swapped := LessThan(omega3p, MulScalar(omega1, shorter))
	return Basis{
		A: where(swapped, ComplexNode{zero, omega3p}, ComplexNode{omega1, zero}),
		B: where(swapped, ComplexNode{Neg(omega1), zero}, ComplexNode{zero, omega3p}),
	}
}

// Reduced applies (11.1) to ω1 and ω3, Im ω3 > 0.
func Reduced(omega1 *Node, omega3 ComplexNode) Basis {
	a, b := ComplexNode{omega1, ZerosLike(omega1)}, omega3
	translate := func() {
		n := rounded(Div(Add(Mul(b.Re, a.Re), Mul(b.Im, a.Im)), a.Norm2())) // Re(b/a)
		b = b.sub(a.Times(n))
	}
	for range basisSteps {
		translate()
		swap := LessThan(b.Norm2(), MulScalar(a.Norm2(), shorter))
		a, b = where(swap, b, a), where(swap, a.scale(-1), b)
	}
	translate()
	return Basis{a, b, true}
}

// rounded is an integer next to x, a constant to the gradient.
func rounded(x *Node) *Node { return StopGradient(Floor(AddScalar(x, 0.5-borderShift))) }

// cellPoint is a point between the rows of a lattice, in units of 1/k, k = π/(2A): rows run along the real axis, their
// poles are π apart, and neighbouring rows are shifted by shift + i·gap.
type cellPoint struct {
	Basis
	k, tau     ComplexNode
	gap, shift *Node       // πIm τ, πRe τ; shift is nil for 0
	z, a       ComplexNode // z less a multiple of 2B, and kz: |Im a| is at most gap/2 + π·borderShift
}

// at returns z in the lattice. All fields have the shape of z, those of the lattice too: autodiff then adds up the
// points' gradients once, at the end, and a compiler needs no kernel for each.
func (l Basis) at(z ComplexNode) cellPoint {
	l.A, l.B = l.A.like(z.Re), l.B.like(z.Re)
	inverse := l.A.inverse(l.A.Norm2())
	c := cellPoint{Basis: l, k: inverse.scale(math.Pi / 2), tau: l.B.mul(inverse)}
	c.gap = MulScalar(c.tau.Im, math.Pi)
	if l.Oblique {
		c.shift = MulScalar(c.tau.Re, math.Pi)
	}
	height := AddScalar(z.mul(c.k).Im, -math.Pi*borderShift)
	n := StopGradient(Floor(AddScalar(Div(height, c.gap), 0.5)))
	c.z = z.sub(l.B.Times(n).scale(2))
	c.a = c.z.mul(c.k)
	return c
}
