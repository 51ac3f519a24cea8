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

// referencePoint is one row of wp_points.json.
type referencePoint map[string]any

func (p referencePoint) number(name string) float64 { return p[name].(float64) }

// value is a complex number, whose 30 digits of mpmath are rounded.
func (p referencePoint) value(name string) complex128 {
	parts := p[name].(map[string]any)
	return complex(parts["re64"].(float64), parts["im64"].(float64))
}

// derivativesOf builds ℘, ℘′ at one point and every first derivative of their four parts: by x, y, and ω3′ with z fixed
// and with z tied to the lattice. Inputs x, y, ω1, ω3′; outputs are pairs (Re, Im) of ℘, ℘′ and, for each of both, ∂x,
// ∂y, fixed, tied.
func derivativesOf(in []*Node) []*Node {
	x, y, omega1, omega3p := in[0], in[1], in[2], in[3]
	p, pPrime := P(ComplexNode{x, y}, Rectangle(omega1, omega3p))
	period := MulScalar(omega3p, 2) // reduced as Encoder does: the tie is that of the reduced point, (3.10)
	reduced := StopGradient(Sub(y, Mul(Floor(AddScalar(Div(y, period), 0.5)), period)))
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
	for dtype, epsilon := range epsilons {
		t.Run(dtype.String(), func(t *testing.T) {
			exec := gomlxtest.Must(NewExec(gomlxtest.Backend(), derivativesOf))(t)
			worst := make([]float64, len(names))
			for _, point := range reference.Points {
				lattice := reference.Lattices[point["lattice"].(string)]
				wants, distance := point.derivatives(), point.number("dist_to_pole")
				inputs := []float64{point.number("z_re"), point.number("z_im"), lattice.Omega1, lattice.Omega3p}
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
				p, prime, omega3p := point.number("scale_wp"), point.number("scale_wpp"), inputs[3]
				second := p * p
				scales := []float64{p, prime, prime, prime, p / omega3p, p / omega3p, second, second, prime / omega3p,
					prime / omega3p}
				for i, value := range pairs(evaluate(t, exec, dtype, inputs)) {
					units := cmplx.Abs(value-wants[i]) / (law * (cmplx.Abs(wants[i]) + scales[i]))
					worst[i] = max(worst[i], units)
					if !(units <= lawConstant) {
						t.Errorf("%s on %s at z = %g%+gi: got %g, want %g: %.3g units", names[i], point["lattice"], inputs[0],
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
	prime, second := p.value("wpp"), p.value("d2wp_dz2")
	return []complex128{p.value("wp"), prime, prime, prime * 1i, p.value("dwp_dw3_fixed"), p.value("dwp_dw3_tied"),
		second, second * 1i, p.value("dwpp_dw3_fixed"), p.value("dwpp_dw3_tied")}
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

// epsilons are the relative errors of one rounding.
var epsilons = map[dtypes.DType]float64{dtypes.Float64: 0x1p-53, dtypes.Float32: 0x1p-24}

// floatTypes are the types that the backend has.
func floatTypes(t *testing.T) []dtypes.DType {
	t.Helper()
	return []dtypes.DType{dtypes.Float32, dtypes.Float64}[:map[bool]int{false: 1, true: 2}[float64Runs(t)]]
}

// float64Runs reports whether the test backend evaluates P in float64.
func float64Runs(t *testing.T) bool {
	t.Helper()
	return exceptions.TryCatch[error](func() {
		MustNewExec(gomlxtest.Backend(), derivativesOf).MustCall(0.3, 0.7, 2.0, 3.0)
	}) == nil
}
