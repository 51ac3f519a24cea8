// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/mat"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// skew draws a skew-symmetric matrix of float32 numbers up to limit, all of one sign above the diagonal on request: the
// case that attains Pick's inequality.
func skew(r *rand.Rand, n int, limit float64, extreme bool) *mat.Dense {
	x := mat.NewDense(n, n, nil)
	for i := range n {
		for j := i + 1; j < n; j++ {
			v := float64(float32(limit * r.Float64()))
			if extreme {
				v = float64(float32(limit))
			}
			x.Set(i, j, v)
			x.Set(j, i, -v)
		}
	}
	return x
}

func TestAMatrixIsHalvedUntilItsNormIsAtMostOne(t *testing.T) {
	for bound, want := range map[float64]int{0.01: 0, 0.3: 0, 1: 0, 1.5: 1, 2: 1, 2.1: 2, 25: 5, 32: 5} {
		if got := expSquarings(bound); got != want {
			t.Errorf("%g is halved %d times, want %d", bound, got, want)
		}
	}
}

// Without rounding, in float64, the error is Taylor's remainder: 2^s/13! with s squarings, as expm.go states.
func TestTruncatingExpSkewCostsAsLittleAsStated(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, limit := range []float64{0.3, 7} {
		const n = 8
		bound := limit / math.Tan(math.Pi/float64(2*n))
		x := skew(r, n, limit, true)
		var exponential mat.Dense
		exponential.Exp(x)
		got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{expSkew(in[0], bound)} },
			tensors.FromFlatDataAndDimensions(slices.Clone(x.RawMatrix().Data), n, n))[0]
		gomlxtest.NearAbs(t, "exponential", got, exponential.RawMatrix().Data,
			math.Ldexp(1/math.Gamma(14), expSquarings(bound)))
	}
}

// The error bound in expm.go: 2^s·10⁻⁷ in the worst element, s squarings, compared with gonum's exponential.
func TestExpSkewIsWithinItsStatedError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, test := range []struct {
		n     int
		limit float64
	}{{2, 0.3}, {2, 25}, {3, 7}, {8, 0.1}, {8, 12.5}, {8, 25}, {13, 25}, {64, 12.5}, {64, 25}} {
		bound := test.limit / math.Tan(math.Pi/float64(2*test.n))
		allowed := math.Ldexp(1e-7, expSquarings(bound))
		matrices := []*mat.Dense{
			skew(r, test.n, test.limit, false), skew(r, test.n, test.limit/4, false), skew(r, test.n, test.limit, true),
		}
		var flat []float32
		for _, x := range matrices {
			for _, v := range x.RawMatrix().Data {
				flat = append(flat, float32(v))
			}
		}
		got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{expSkew(in[0], bound)} },
			tensors.FromFlatDataAndDimensions(flat, len(matrices), test.n, test.n))[0]
		worst := 0.0
		for k, x := range matrices {
			var exponential mat.Dense
			exponential.Exp(x)
			for i, want := range exponential.RawMatrix().Data {
				worst = max(worst, math.Abs(got[k*test.n*test.n+i]-want))
			}
		}
		t.Logf("n = %d, elements to %g, norm to %.1f, %d squarings: error %.2g, stated %.2g", test.n, test.limit, bound,
			expSquarings(bound), worst, allowed)
		if !(worst <= allowed) {
			t.Errorf("n = %d, elements to %g: error %g, stated %g", test.n, test.limit, worst, allowed)
		}
	}
}
