// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// square is a matrix of float64, row by row.
type square struct {
	n int
	a []float64
}

func (x square) times(y square) square {
	z := square{x.n, make([]float64, x.n*x.n)}
	for i := range x.n {
		for k := range x.n {
			for j := range x.n {
				z.a[i*x.n+j] += x.a[i*x.n+k] * y.a[k*x.n+j]
			}
		}
	}
	return z
}

// exp sums 24 terms of the series at x/2^s with elements of x/2^s below 1/(8n) and squares s times: slow, and as exact
// as float64 is.
func (x square) exp() square {
	largest, squarings := 0.0, 0
	for _, v := range x.a {
		largest = max(largest, math.Abs(v))
	}
	for ; largest > 1/float64(8*x.n); squarings++ {
		largest /= 2
	}
	scaled, term, sum := square{x.n, make([]float64, x.n*x.n)}, square{x.n, make([]float64, x.n*x.n)}, square{}
	for i, v := range x.a {
		scaled.a[i] = math.Ldexp(v, -squarings)
	}
	for i := range x.n {
		term.a[i*(x.n+1)] = 1
	}
	sum = square{x.n, append([]float64{}, term.a...)}
	for k := 1; k < 24; k++ {
		term = term.times(scaled)
		for i := range term.a {
			term.a[i] /= float64(k)
			sum.a[i] += term.a[i]
		}
	}
	for range squarings {
		sum = sum.times(sum)
	}
	return sum
}

// skew draws a skew-symmetric matrix with elements up to limit, all of one sign above the diagonal on request: the
// case that attains Pick's inequality.
func skew(r *rand.Rand, n int, limit float64, extreme bool) square {
	x := square{n, make([]float64, n*n)}
	for i := range n {
		for j := i + 1; j < n; j++ {
			v := limit * r.Float64()
			if extreme {
				v = limit
			}
			x.a[i*n+j], x.a[j*n+i] = v, -v
		}
	}
	return x
}

func expOf(t *testing.T, matrices []square, bound float64) []float64 {
	t.Helper()
	n := matrices[0].n
	var flat []float32
	for _, x := range matrices {
		for _, v := range x.a {
			flat = append(flat, float32(v))
		}
	}
	return gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{expSkew(in[0], bound)} },
		tensors.FromFlatDataAndDimensions(flat, len(matrices), n, n))[0]
}

// The error law in expm.go: 2^s·10⁻⁷ in the worst element, s squarings, from the float64 exponential of the same
// float32 numbers.
func TestExpSkewIsWithinItsStatedError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, test := range []struct {
		n     int
		limit float64
	}{{2, 0.3}, {2, 25}, {3, 7}, {8, 0.1}, {8, 12.5}, {8, 25}, {13, 25}, {64, 12.5}, {64, 25}} {
		bound := test.limit / math.Tan(math.Pi/float64(2*test.n))
		allowed := math.Ldexp(1e-7, expSquarings(bound))
		matrices := []square{
			skew(r, test.n, test.limit, false), skew(r, test.n, test.limit/4, false), skew(r, test.n, test.limit, true),
		}
		got := expOf(t, matrices, bound)
		worst := 0.0
		for k, x := range matrices {
			for i := range x.a {
				x.a[i] = float64(float32(x.a[i]))
			}
			for i, want := range x.exp().a {
				worst = max(worst, math.Abs(got[k*len(x.a)+i]-want))
			}
		}
		t.Logf("n = %d, elements to %g, norm to %.1f, %d squarings: error %.2g, stated %.2g", test.n, test.limit, bound,
			expSquarings(bound), worst, allowed)
		if !(worst <= allowed) {
			t.Errorf("n = %d, elements to %g: error %g, stated %g", test.n, test.limit, worst, allowed)
		}
	}
}
