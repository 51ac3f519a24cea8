// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// S depends on n/d alone, down to the size that counts as 0; 0/0 is ∞ and has no slope.
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

// ℘′ is 0 at ω1, and S(0) the south pole. In cells as long as these n and d are both small there, but d is still larger
// than the rounding of ω1: the guard of each type must leave them alone.
func TestSphere_of_long_cells_has_the_zero_of_the_derivative_at_omega1(t *testing.T) {
	for _, c := range []struct {
		dtype dtypes.DType
		ratio float64 // |d| is falls as exp(-π/2·ratio): 6e-6, 8e-15
	}{{dtypes.Float32, 9}, {dtypes.Float64, 22}} {
		if c.dtype == dtypes.Float64 && !float64Runs(t) {
			continue
		}
		const omega1 = 1.25
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			scalar := func(x float64) *Node { return Scalar(in[0].Graph(), c.dtype, x) }
			z := ComplexNode{scalar(omega1), scalar(0)}
			_, prime := Sphere(z, scalar(omega1), scalar(c.ratio*omega1), scalar(1))
			return []*Node{prime}
		}, float32(0))[0]
		gomlxtest.NearAbs(t, c.dtype.String(), got, []float64{0, 0, -1}, 0.05) // as ω1 is rounded
	}
}
