// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// The matrix exponential, for skew-symmetric matrices, by scaling and squaring.
//
//	exp(X) = T(X/2^s)^(2^s),   T(Y) = Σ_{k≤12} Y^k/k!,   s the smallest with bound/2^s ≤ 1
//
// A skew-symmetric X is normal with eigenvalues iλ, |λ| ≤ ‖X‖, so the scalar error bound applies: Taylor's remainder at
// i·y is at most y^13/13!, and a power multiplies it by the exponent. Truncation thus costs at most 2^s/13! =
// 2^s·1.6·10⁻¹⁰. In float32 rounding dominates: each squaring doubles the existing error, and the worst element of the
// result is off by up to 2^s·10⁻⁷, as TestExpSkewIsWithinItsStatedError measures.
//
// T takes five products in the form of Paterson and Stockmeyer (SIAM J. Comput. 2, 1973, 60-66), so exp takes s + 5.

// expSquarings returns s for matrices of spectral norm up to bound.
func expSquarings(bound float64) int { return int(max(0, math.Ceil(math.Log2(bound)))) }

// expSkew returns exp of the skew-symmetric matrices x [..., n, n], whose spectral norms must not exceed bound. It is
// differentiable; exp(0) is exactly the identity.
func expSkew(x *Node, bound float64) *Node {
	squarings := expSquarings(bound)
	x = MulScalar(x, math.Ldexp(1, -squarings))
	power := []*Node{identity(x), x, nil, nil}
	for i := 2; i < len(power); i++ {
		power[i] = MatMul(power[i-1], x)
	}
	x4 := MatMul(power[2], power[2])

	y := MulScalar(x4, 1/math.Gamma(13)) // X⁴·(1/12!)
	for first := 8; ; first -= 4 {
		for i, p := range power {
			y = Add(y, MulScalar(p, 1/math.Gamma(float64(first+i+1))))
		}
		if first == 0 {
			break
		}
		y = MatMul(y, x4)
	}
	for range squarings {
		y = MatMul(y, y)
	}
	return y
}

// identity returns the unit matrix [n, n] of x [..., n, n], with as many axes of length 1 in front as x has.
func identity(x *Node) *Node {
	n := x.Shape().Dim(-1)
	unit := make([]float64, n*n)
	for i := range n {
		unit[i*(n+1)] = 1
	}
	dims := make([]int, x.Rank())
	for i := range dims {
		dims[i] = 1
	}
	dims[len(dims)-2], dims[len(dims)-1] = n, n
	return Reshape(ConstAsDType(x.Graph(), x.DType(), unit), dims...)
}
