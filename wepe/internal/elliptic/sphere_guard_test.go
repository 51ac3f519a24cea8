// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// S depends only on n/d, down to the size that counts as 0; 0/0 is ∞ and has no slope.
func TestQuotients_on_the_sphere_are_right_down_to_the_guard_and_finite_below(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.Float64} {
		if dtype == dtypes.Float64 && !float64Runs(t) {
			continue
		}
		least := math.Sqrt(leastNorm2(dtype))
		sizes := []float64{0, least / 64, 2 * least, 1}
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			g := in[0].Graph()
			var out []*Node
			for _, size := range sizes {
				part := func(x float64) *Node { return ConstAsDType(g, dtype, []float64{x * size}) }
				q := quotient{ComplexNode{part(0.6), part(0)}, ComplexNode{part(0), part(0.8)}} // n/d = -0.75i
				slope := q.pullBack(ConstAsDType(g, dtype, [][]float64{{1, 2, 3}}))
				out = append(out, q.onSphere(), slope.Re, slope.Im)
			}
			return out
		}, float32(0))
		for i, size := range sizes {
			want, slope := []float64{0, -0.96, -0.28}, got[3*i+1][0]*size*size
			if size < least {
				want, slope = []float64{0, 0, 1}, got[3*i+1][0]
			}
			gomlxtest.NearAbs(t, dtype.String(), got[3*i], want, 1e-6)
			// 2 (γ̄ d̄² - γ n̄² + 2·3 n̄ d̄), γ = 1 + 2i, n̄ = 0.6, d̄ = -0.8i
			if wantSlope := 2 * (-0.64 - 0.36); size >= least && !(math.Abs(slope-wantSlope) <= 1e-5) ||
				size < least && slope != 0 {
				t.Errorf("%s, |n|, |d| about %g: κ is %g/size²", dtype, size, slope)
			}
		}
	}
}

// In a long cell S(w′) turns within exp(-π/2·ratio) of ω1, where ℘′ is 0: the rounding of z decides between the sides.
func TestSphere_of_long_cells_errs_by_eight_roundings_of_inputs_and_result(t *testing.T) {
	for _, f := range functions[2:] {
		exec := MustNewExec(gomlxtest.Backend(), f.build)
		for _, c := range []struct {
			dtype   dtypes.DType
			epsilon float64
			ratios  []float64
		}{{dtypes.Float32, 0x1p-24, []float64{4, 9, 14, 20, 30}}, {dtypes.Float64, 0x1p-53, []float64{9, 20, 60, 176}}} {
			if c.dtype == dtypes.Float64 && !float64Runs(t) {
				continue
			}
			random, worst := rand.New(rand.NewPCG(1, 2)), 0.0
			for i := range 60 * len(c.ratios) {
				ratio := c.ratios[i%len(c.ratios)]
				x, y := float64(i/2%3-1)/2, float64(i/6%3-1)/2 // half-periods and the pole, then around them
				if i > 15*len(c.ratios) {
					apart := math.Exp(-20 * random.Float64())
					x, y = x+apart*random.NormFloat64(), y+apart*random.NormFloat64()/ratio
				}
				sides := [2]float64{1.3, 1.3 * ratio}
				if i/30%2 == 1 {
					sides[0], sides[1] = sides[1], sides[0]
				}
				in := []float64{2 * x * sides[0], 2 * y * sides[1], sides[0], 0, sides[1], 1}
				for k, v := range in {
					in[k] = round(c.dtype, v)
				}
				got, want := evaluate(t, exec, c.dtype, in), f.host(t, in)
				allowed := slices.Repeat([]float64{8 * c.epsilon}, len(want))
				for k, size := range map[int]float64{0: math.Hypot(in[0], in[1]), 1: math.Hypot(in[0], in[1]), 2: in[2], 4: in[4]} {
					spread := make([]float64, len(want))
					for _, by := range []float64{-8, -2, -1, 1, 2, 8} {
						moved := slices.Clone(in)
						moved[k] += by * c.epsilon * size
						for part, v := range f.host(t, moved) {
							spread[part] = max(spread[part], math.Abs(v-want[part]))
						}
					}
					floats.Add(allowed, spread)
				}
				for part := range want {
					worst = max(worst, math.Abs(got[part]-want[part])/allowed[part])
					if !(math.Abs(got[part]-want[part]) <= allowed[part]) {
						t.Errorf("%s, %s, %v: part %d is %g, want %g ± %g", f.name, c.dtype, in, part, got[part], want[part],
							allowed[part])
					}
				}
			}
			t.Logf("%s, %s: at most %.2g of what is allowed", f.name, c.dtype, worst)
		}
		exec.Finalize()
	}
}
