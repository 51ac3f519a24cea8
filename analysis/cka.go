// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// unbiasedCKA compares two representations of the same n > 3 examples, x [n, p] and y [n, q], by linear centred kernel
// alignment (Kornblith et al., https://arxiv.org/abs/1905.00414) with the unbiased estimator of the inner products
// (Song et al. 2007), which does not grow with the width for few examples: with Gram matrices K = xxᵀ, L = yyᵀ,
//
//	⟨K, L⟩ / (‖K‖ ‖L‖),
//
// 1 if they are equal up to rotation and scale; NaN if one of them is constant; it may be below 0.
func unbiasedCKA(x, y []float64, n int) float64 {
	k, l := centredGram(x, n), centredGram(y, n)
	return floats.Dot(k, l) / math.Sqrt(floats.Dot(k, k)*floats.Dot(l, l))
}

// centredGram is xxᵀ [n, n] of x [n, width] without its diagonal, rows and columns centred.
func centredGram(x []float64, n int) []float64 {
	m := lessMeans(x, n)
	var gram mat.Dense
	gram.Mul(m, m.T())
	k := gram.RawMatrix().Data
	for i := range n {
		k[i*n+i] = 0
	}
	means := make([]float64, n)
	for i := range means {
		means[i] = floats.Sum(k[i*n:(i+1)*n]) / float64(n-2)
	}
	all := floats.Sum(means) / float64(n-1)
	for i := range n {
		for j := range n {
			if i != j {
				k[i*n+j] += all - means[i] - means[j]
			}
		}
	}
	return k
}
