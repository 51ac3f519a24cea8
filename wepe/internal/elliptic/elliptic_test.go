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

func TestP_HoldsTheErrorLawAtEveryReferencePoint(t *testing.T) { fixtures.Each(t, testErrorLaw) }

func testErrorLaw(t *testing.T) {
	var reference struct {
		Lattices map[string]struct{ Omega1, Omega3p float64 }
		Points   []referencePoint
	}
	fixtures.JSON(t, "weierstrass", "wp_points.json", &reference)
	names := []string{"P", "PPrime", "dP/dx", "dP/dy", "dP/dw3 fixed", "dP/dw3 tied", "dPPrime/dx", "dPPrime/dy",
		"dPPrime/dw3 fixed", "dPPrime/dw3 tied"}
	for dtype, epsilon := range map[dtypes.DType]float64{dtypes.Float64: 0x1p-53, dtypes.Float32: 0x1p-24} {
		t.Run(dtype.String(), func(t *testing.T) {
			exec := gomlxtest.Must(NewExec(gomlxtest.Backend(), derivativesOf))(t)
			worst := make([]float64, len(names))
			for _, point := range reference.Points {
				lattice, wants, distance := reference.Lattices[point.Lattice], point.derivatives(), point.DistToPole
				inputs := []float64{point.ZRe, point.ZIm, lattice.Omega1, lattice.Omega3p}
				if dtype == dtypes.Float32 { // the inputs are rounded; there the float64 graph, tested too, is exact
					for i, v := range inputs {
						inputs[i] = round(dtype, v)
					}
					if distance = fromPole(complex(inputs[0], inputs[1]), inputs[2], 0, inputs[3]); distance == 0 {
						continue // rounded onto a pole
					}
					wants = pairs(evaluate(t, exec, dtypes.Float64, inputs))
				}
				law := epsilon * (1 + math.Hypot(inputs[0], inputs[1])/distance)
				p, prime, second, omega3p := point.ScaleP, point.ScalePPrime, point.ScaleP*point.ScaleP, inputs[3]
				scales := []float64{p, prime, prime, prime, p / omega3p, p / omega3p, second, second, prime / omega3p,
					prime / omega3p}
				for i, value := range pairs(evaluate(t, exec, dtype, inputs)) {
					units := cmplx.Abs(value-wants[i]) / (law * (cmplx.Abs(wants[i]) + scales[i]))
					worst[i] = max(worst[i], units)
					if !(units <= lawConstant) {
						t.Errorf("%s on %s at z = %g%+gi: got %g, want %g: %.3g units", names[i], point.Lattice, inputs[0],
							inputs[1], value, wants[i], units)
					}
				}
			}
			for i, units := range worst {
				t.Logf("%-18s worst error %5.1f of %d units", names[i], units, lawConstant)
			}
		})
	}
}

// derivatives are the expected outputs of derivativesOf, in its order.
func (p referencePoint) derivatives() []complex128 {
	return []complex128{p.P.c(), p.PPrime.c(), p.PPrime.c(), p.PPrime.c() * 1i, p.FixedP.c(), p.TiedP.c(),
		p.PSecond.c(), p.PSecond.c() * 1i, p.FixedPPrime.c(), p.TiedPPrime.c()}
}

// pairs are real and imaginary parts as complex numbers.
func pairs(parts []float64) (values []complex128) {
	for pair := range slices.Chunk(parts, 2) {
		values = append(values, complex(pair[0], pair[1]))
	}
	return values
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
