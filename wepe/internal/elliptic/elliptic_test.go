// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// lawConstant is C of the error law of the weierstrass fixture,
//
//	|got - want| <= C·ε·(1 + |z|/dist_to_pole)·(|want| + scale).
const lawConstant = 64

// referencePoint is one row of wp_points.json; the strings are mpmath's 30 digits.
type referencePoint struct {
	Lattice     string
	ZRe         float64        `json:"z_re"`
	ZIm         float64        `json:"z_im"`
	P           referenceValue `json:"wp"`
	PPrime      referenceValue `json:"wpp"`
	PSecond     referenceValue `json:"d2wp_dz2"`
	FixedP      referenceValue `json:"dwp_dw3_fixed"`
	FixedPPrime referenceValue `json:"dwpp_dw3_fixed"`
	TiedP       referenceValue `json:"dwp_dw3_tied"`
	TiedPPrime  referenceValue `json:"dwpp_dw3_tied"`
	DistToPole  float64        `json:"dist_to_pole"`
	ScaleP      float64        `json:"scale_wp"`
	ScalePPrime float64        `json:"scale_wpp"`
}

type referenceValue struct {
	Re float64 `json:"re64"`
	Im float64 `json:"im64"`
}

func (v referenceValue) c() complex128 { return complex(v.Re, v.Im) }

type referencePoints struct {
	Lattices map[string]struct{ Omega1, Omega3p float64 }
	Points   []referencePoint
}

// derivativesOf builds ℘, ℘′ at one point and every first derivative of their four parts: by x, y, and ω3′ with z fixed
// and with z tied to the lattice. Inputs x, y, ω1, ω3′; outputs are pairs (Re, Im) of ℘, ℘′ and, for each of both, ∂x,
// ∂y, fixed, tied.
func derivativesOf(in []*Node) []*Node {
	x, y, omega1, omega3p := in[0], in[1], in[2], in[3]
	p, pPrime := P(ComplexNode{x, y}, Rectangle(omega1, omega3p))
	reduced := StopGradient(nearest(y, omega3p)) // as Encoder does: the tie is that of the reduced point, (3.10)
	tied := Mul(StopGradient(Div(reduced, omega3p)), omega3p)
	tied = Add(StopGradient(Sub(reduced, tied)), tied) // equal to reduced, to the last bit
	tiedP, tiedPPrime := P(ComplexNode{x, tied}, Rectangle(omega1, omega3p))
	out := []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
	for _, f := range []struct{ fixed, tied ComplexNode }{{p, tiedP}, {pPrime, tiedPPrime}} {
		re, im := Gradient(f.fixed.Re, x, y, omega3p), Gradient(f.fixed.Im, x, y, omega3p)
		for i := range re {
			out = append(out, re[i], im[i])
		}
		out = append(out, Gradient(f.tied.Re, omega3p)[0], Gradient(f.tied.Im, omega3p)[0])
	}
	return out
}

func TestP_and_its_gradients_hold_the_error_law_at_every_reference_point(t *testing.T) {
	fixtures.Each(t, testP_and_its_gradients_hold_the_error_law_at_every_reference_point)
}

func testP_and_its_gradients_hold_the_error_law_at_every_reference_point(t *testing.T) {
	var reference referencePoints
	fixtures.JSON(t, "weierstrass", "wp_points.json", &reference)
	for _, dtype := range []dtypes.DType{dtypes.Float64, dtypes.Float32} {
		t.Run(dtype.String(), func(t *testing.T) {
			exec := gomlxtest.Must(NewExec(gomlxtest.Backend(), derivativesOf))(t)
			epsilon := 0x1p-53
			if dtype == dtypes.Float32 {
				epsilon = 0x1p-24
			}
			worst := make(map[string]float64)
			for _, point := range reference.Points {
				lattice := reference.Lattices[point.Lattice]
				inputs := []float64{point.ZRe, point.ZIm, lattice.Omega1, lattice.Omega3p}
				if dtype == dtypes.Float32 {
					var exact bool
					if inputs, exact = point.round(t, exec, inputs); !exact {
						continue
					}
				}
				got := evaluate(t, exec, dtype, inputs)
				law := epsilon * (1 + math.Hypot(inputs[0], inputs[1])/point.DistToPole)
				scaleSecond := point.ScaleP * point.ScaleP
				omega3p := inputs[3]
				for i, c := range []struct {
					name  string
					want  complex128
					scale float64
				}{
					{"P", point.P.c(), point.ScaleP},
					{"PPrime", point.PPrime.c(), point.ScalePPrime},
					{"dP/dx", point.PPrime.c(), point.ScalePPrime},
					{"dP/dy", point.PPrime.c() * 1i, point.ScalePPrime},
					{"dP/dw3 fixed", point.FixedP.c(), point.ScaleP / omega3p},
					{"dP/dw3 tied", point.TiedP.c(), point.ScaleP / omega3p},
					{"dPPrime/dx", point.PSecond.c(), scaleSecond},
					{"dPPrime/dy", point.PSecond.c() * 1i, scaleSecond},
					{"dPPrime/dw3 fixed", point.FixedPPrime.c(), point.ScalePPrime / omega3p},
					{"dPPrime/dw3 tied", point.TiedPPrime.c(), point.ScalePPrime / omega3p},
				} {
					value := complex(got[2*i], got[2*i+1])
					units := cmplx.Abs(value-c.want) / (law * (cmplx.Abs(c.want) + c.scale))
					worst[c.name] = max(worst[c.name], units)
					if !(units <= lawConstant) {
						t.Errorf("%s on %s at z = %g%+gi: got %g, want %g: %.3g units", c.name, point.Lattice,
							inputs[0], inputs[1], value, c.want, units)
					}
				}
			}
			for name, units := range worst {
				t.Logf("%-18s worst error %5.1f of %d units", name, units, lawConstant)
			}
		})
	}
}

// round rounds the inputs to float32 and replaces the expected values by the values of the float64 graph there, which
// is tested against the reference. It returns false for a point that rounding moves onto a pole.
func (p *referencePoint) round(t *testing.T, exec *Exec, inputs []float64) (rounded []float64, exact bool) {
	t.Helper()
	for _, v := range inputs {
		rounded = append(rounded, float64(float32(v)))
	}
	if p.DistToPole = fromPole(complex(rounded[0], rounded[1]), rounded[2], 0, rounded[3]); p.DistToPole == 0 {
		return rounded, false
	}
	got := evaluate(t, exec, dtypes.Float64, rounded)
	// In the order of derivativesOf; ∂/∂x is the derivative by z and ∂/∂y is redundant.
	for i, to := range []*referenceValue{&p.P, &p.PPrime, &p.PPrime, nil, &p.FixedP, &p.TiedP, &p.PSecond, nil,
		&p.FixedPPrime, &p.TiedPPrime} {
		if to != nil {
			*to = referenceValue{got[2*i], got[2*i+1]}
		}
	}
	return rounded, true
}

// evaluate runs the graph on scalars of the dtype and returns its scalar outputs.
func evaluate(t *testing.T, exec *Exec, dtype dtypes.DType, inputs []float64) []float64 {
	t.Helper()
	args := make([]any, len(inputs))
	for i, v := range inputs {
		args[i] = v
	}
	return slices.Concat(call(t, exec, dtype, args...)...)
}

// nearest reduces x by multiples of the period 2·half.
func nearest(x, half *Node) *Node {
	period := MulScalar(half, 2)
	return Sub(x, Mul(Floor(AddScalar(Div(x, period), 0.5)), period))
}

// float64Runs reports whether the test backend evaluates P in float64.
func float64Runs(t *testing.T) bool {
	t.Helper()
	err := exceptions.TryCatch[error](func() {
		MustNewExec(gomlxtest.Backend(), derivativesOf).MustCall(0.3, 0.7, 2.0, 3.0)
	})
	return err == nil
}
