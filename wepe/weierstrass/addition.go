// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import "math/cmplx"

// Add returns ℘(z1+z2) and ℘′(z1+z2) from the values at z1 and z2, which must belong to this lattice:
// mathematics.md (5.1) to (5.4), DLMF 23.10.1.
//
// z1 = z2 is duplication, DLMF 23.10.7, and z1 close to z2 costs no digits: the slope of the chord is then taken
// from (5.2). z1 close to −z2 does cost digits, like ε/|z1+z2|, whichever formula is used: the sum is close to a pole
// and the given values no longer say how close. Evaluate at z1+z2 instead if the points are known.
//
// Special cases are:
//
//	Add(Inf, ·, p, pp) = p, pp     lattice points are neutral
//	Add(p, pp, p, −pp) = Inf, Inf  z2 = −z1
func (l Lattice) Add(p1, pp1, p2, pp2 complex128) (p, pp complex128) {
	switch {
	case cmplx.IsInf(p1):
		return p2, pp2
	case cmplx.IsInf(p2):
		return p1, pp1
	}
	rise, run := pp1-pp2, p1-p2 // (5.1)
	otherRise, otherRun := 4*(p1*p1+p1*p2+p2*p2)-complex(l.inv.G2, 0), pp1+pp2
	// Either quotient loses what the rounding of its numerator's terms is worth after the division. The chord (5.1) is
	// taken unless it loses clearly more (5.11): off the diagonal its terms are as good as the values given.
	a1, a2 := cmplx.Abs(p1), cmplx.Abs(p2)
	size, otherSize := cmplx.Abs(pp1)+cmplx.Abs(pp2), 4*(a1*a1+a1*a2+a2*a2)+l.inv.G2
	if size*cmplx.Abs(otherRun) > 4*otherSize*cmplx.Abs(run) {
		rise, run = otherRise, otherRun
	}
	if run == 0 {
		return cmplx.Inf(), cmplx.Inf()
	}
	slope := rise / run
	p = slope*slope/4 - p1 - p2
	pp = -(slope*(p-p1) + pp1)
	return poleAsInf(p), poleAsInf(pp)
}
