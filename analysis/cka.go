// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// linearCKA compares two representations of the same n examples, x [n, p] and y [n, q] (Kornblith et al.,
// https://arxiv.org/abs/1905.00414): with Gram matrices K = xxᵀ, L = yyᵀ, rows and columns centred,
//
//	⟨K, L⟩ / (‖K‖ ‖L‖),
//
// 1 where they are equal up to rotation and scale; NaN where one of them is constant.
func linearCKA(x, y []float64, n int) float64 {
	return cka(centred(gram(x, n), n), centred(gram(y, n), n))
}

// unbiasedCKA is linearCKA with the unbiased estimator of the inner products (Song et al. 2007), which does not grow
// with the width where examples are few. It wants n > 3 and may be below 0.
func unbiasedCKA(x, y []float64, n int) float64 {
	return cka(unbiased(gram(x, n), n), unbiased(gram(y, n), n))
}

// gaussianCKA is CKA of K_ij = exp(−d²/2σ²) with σ² = factor² · median of all n² squared distances d², for x and y
// each.
func gaussianCKA(x, y []float64, n int, factor float64) float64 {
	kernel := func(points []float64) []float64 {
		k := squaredDistances(points, n)
		width := 2 * factor * factor * quantile(k, 0.5)
		for i, d := range k {
			k[i] = math.Exp(-d / width)
		}
		return centred(k, n)
	}
	return cka(kernel(x), kernel(y))
}

func cka(k, l []float64) float64 {
	return floats.Dot(k, l) / math.Sqrt(floats.Dot(k, k)*floats.Dot(l, l))
}

// gram is xxᵀ [n, n] of x [n, width], its columns centred.
func gram(x []float64, n int) []float64 {
	width := len(x) / n
	x = slices.Clone(x)
	for c := range width {
		mean := 0.0
		for i := c; i < len(x); i += width {
			mean += x[i] / float64(n)
		}
		for i := c; i < len(x); i += width {
			x[i] -= mean
		}
	}
	var out mat.Dense
	m := mat.NewDense(n, width, x)
	out.Mul(m, m.T())
	return out.RawMatrix().Data
}

// centred takes the means of rows and columns off a symmetric matrix.
func centred(k []float64, n int) []float64 {
	means := make([]float64, n)
	for i := range means {
		means[i] = floats.Sum(k[i*n:(i+1)*n]) / float64(n)
	}
	return offset(k, n, means, floats.Sum(means)/float64(n))
}

// unbiased is centred for a matrix without its diagonal.
func unbiased(k []float64, n int) []float64 {
	k = slices.Clone(k)
	for i := range n {
		k[i*n+i] = 0
	}
	means := make([]float64, n)
	for i := range means {
		means[i] = floats.Sum(k[i*n:(i+1)*n]) / float64(n-2)
	}
	k = offset(k, n, means, floats.Sum(means)/float64(n-1))
	for i := range n {
		k[i*n+i] = 0
	}
	return k
}

func offset(k []float64, n int, means []float64, all float64) []float64 {
	out := slices.Clone(k)
	for i := range n {
		for j := range n {
			out[i*n+j] += all - means[i] - means[j]
		}
	}
	return out
}
