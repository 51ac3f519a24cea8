// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weierstrass

import "math/cmplx"

// DirectSum returns the double sums of the definition truncated to the square block |m|, |n| ≤ size of lattice indices,
// mathematics.md (5.6) and (5.7): 4·size·(size+1) terms besides the pole at 0. This is what the paper computes (with
// size 12); [Lattice.Eval] is what to use. z is not reduced: far from 0 the truncation is coarse.
//
// On the square lattice the error is about |z|²/(16ω1⁴(size+½)²) in ℘ and 2/|z| times that in ℘′ (5.9).
//
// Special cases are:
//
//	DirectSum(z, size) = Inf, Inf for z one of the points summed over
//	DirectSum(z, size ≤ 0) = 1/z², −2/z³
func (l Lattice) DirectSum(z complex128, size int) (p, pp complex128) {
	for w := range l.halfBlock(size) {
		// w and −w together: their odd powers cancel, and half the divisions by w² are saved.
		right, left, inverse := 1/(z-w), 1/(z+w), 1/w
		right2, left2 := right*right, left*left
		p += right2 + left2 - 2*inverse*inverse
		pp += right2*right + left2*left
	}
	inverse := 1 / z
	p += inverse * inverse
	pp += inverse * inverse * inverse
	return poleOrNaN(z, p), poleOrNaN(z, -2*pp)
}

// DirectSumTail returns what to add to DirectSum of the same size to bring its error from second to sixth order in
// 1/size: the first two terms of the missing tail, which the exact g2 and g3 give away, mathematics.md (5.8), (5.10).
func (l Lattice) DirectSumTail(z complex128, size int) (p, pp complex128) {
	g4, g6 := complex(l.inv.G2/60, 0), complex(l.inv.G3/140, 0)
	for w := range l.halfBlock(size) {
		inverse := 1 / w
		inverse2 := inverse * inverse
		g4 -= 2 * inverse2 * inverse2
		g6 -= 2 * inverse2 * inverse2 * inverse2
	}
	z2 := z * z
	return 3*z2*g4 + 5*z2*z2*g6, 6*z*g4 + 20*z*z2*g6
}

// halfBlock yields one of each pair ±w of the lattice points w ≠ 0 with |m|, |n| ≤ size, the far rows first.
func (l Lattice) halfBlock(size int) func(yield func(complex128) bool) {
	return func(yield func(complex128) bool) {
		for n := size; n >= 0; n-- {
			for m := -size; m <= size && (n > 0 || m < 0); m++ {
				if !yield(complex(2*float64(m)*l.omega1, 2*float64(n)*l.omega3p)) {
					return
				}
			}
		}
	}
}

// poleOrNaN is poleAsInf for sums that were not checked for NaN in z.
func poleOrNaN(z, v complex128) complex128 {
	if cmplx.IsNaN(z) || cmplx.IsInf(z) {
		return cmplx.NaN()
	}
	return poleAsInf(v)
}
