// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// By default XLA computes float32 products on CUDA in TF32, whose operands have 10 bits of mantissa. It does so to dot
// products alone, and no function of ℘ contains one, forward or backward.
func TestNoFunctionContainsADotProductThatTF32Rounds(t *testing.T) {
	for name, function := range map[string]func(z ComplexNode, omega1 *Node, omega3 ComplexNode) []*Node{
		"P": func(z ComplexNode, omega1 *Node, omega3 ComplexNode) []*Node {
			p, prime := P(z, omega1, omega3.Im)
			return []*Node{p.Re, p.Im, prime.Re, prime.Im}
		},
		"POblique": func(z ComplexNode, omega1 *Node, omega3 ComplexNode) []*Node {
			p, prime := POblique(z, omega1, omega3)
			return []*Node{p.Re, p.Im, prime.Re, prime.Im}
		},
		"LatticeSum": func(z ComplexNode, omega1 *Node, omega3 ComplexNode) []*Node {
			p, prime := DefaultLatticeSum().P(z, omega1, omega3.Im)
			return []*Node{p.Re, p.Im, prime.Re, prime.Im}
		},
		"Sphere": func(z ComplexNode, omega1 *Node, omega3 ComplexNode) []*Node {
			point, prime := Sphere(z, omega1, omega3.Im, Scalar(omega1.Graph(), dtypes.Float32, 0.2))
			return []*Node{point, prime}
		},
		"SphereOblique": func(z ComplexNode, omega1 *Node, omega3 ComplexNode) []*Node {
			point, prime := SphereOblique(z, omega1, omega3, Scalar(omega1.Graph(), dtypes.Float32, 0.2))
			return []*Node{point, prime}
		},
	} {
		g := NewGraph(gomlxtest.Backend(), name)
		in := make([]*Node, 5)
		for i := range in {
			in[i] = Const(g, []float32{0.3, 0.5, 0.7})
			if i >= 2 {
				in[i] = Const(g, float32(1.3))
			}
		}
		sum := Scalar(g, dtypes.Float32, 0)
		for _, output := range function(ComplexNode{in[0], in[1]}, in[2], ComplexNode{in[3], in[4]}) {
			sum = Add(sum, ReduceAllSum(output))
		}
		Gradient(sum, in[0], in[1], in[2], in[4])
		for _, node := range g.Nodes() {
			if node.Type() == NodeTypeDotGeneral {
				t.Errorf("%s contains a dot product: %s", name, node)
			}
		}
		g.Finalize()
	}
}

// tf32 rounds to 10 bits of mantissa, to nearest, ties to even.
func tf32(x float64) float64 {
	const dropped = 52 - 10
	bits := math.Float64bits(x)
	bits += 1<<(dropped-1) - 1 + bits>>dropped&1
	return math.Float64frombits(bits &^ (1<<dropped - 1))
}

// The one product of an encoding is that of features and weights. Its rows are normalized, so that an error is one in
// deviations of a row. Each operand is off by 2^-11 of itself, a term of the sum by 2^-10, and the sum by at most that
// of the sum of sizes, in deviations of the row.
func TestTF32ErrsByAThousandthInTheEncoding(t *testing.T) {
	const rows, cols, width = 14, 14, 192
	for name, with := range map[string]map[string]any{"wepe": nil, "sphere": {paramCompression: string(compressSphere)}} {
		store := gomlxtest.Seeded(t, 3)
		e := New(store.RootScope(), rows, cols, width).with(with).Done()
		outputs := gomlxtest.RunModel(t, store, func(_ *model.Scope, in []*Node) []*Node {
			g := in[0].Graph()
			return []*Node{e.Features(g), MulScalar(e.projection.final.weights.NodeValue(g), 1)}
		}, float32(0))
		features, weights := outputs[0], outputs[1]
		n := len(weights) / width
		worst, nearPole := 0.0, 0.0
		for patch := range rows * cols {
			exact, rounded, sizes := make([]float64, width), make([]float64, width), make([]float64, width)
			largest := 0.0
			for i := range n {
				f := features[patch*n+i]
				largest = max(largest, math.Abs(f))
				for k := range width {
					w := weights[i*width+k]
					exact[k] += f * w
					rounded[k] += tf32(f) * tf32(w)
					sizes[k] += math.Abs(f * w)
				}
			}
			scale, most := deviation(exact), 0.0
			normalize(exact)
			normalize(rounded)
			for k := range width {
				err := math.Abs(rounded[k] - exact[k])
				// The mean and the deviation of a row err, too, by at most as much as its numbers.
				if bound := math.Ldexp(sizes[k]+2*maximum(sizes), -10) / scale; err > bound {
					t.Fatalf("%s, patch %d: channel %d is off by %g, want at most %g", name, patch, k, err, bound)
				}
				most = max(most, err)
			}
			worst = max(worst, most)
			if largest > 0.999 {
				nearPole = max(nearPole, most)
			}
		}
		t.Logf("%s: off by at most %.2g deviations, where a feature is saturated by %.2g", name, worst, nearPole)
		if worst > 2e-3 || worst < 1e-5 {
			t.Errorf("%s: off by %g deviations, the documents say .001", name, worst)
		}
	}
}

func maximum(x []float64) (most float64) {
	for _, v := range x {
		most = max(most, v)
	}
	return most
}

func deviation(x []float64) float64 {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	return math.Sqrt(square)
}

func normalize(x []float64) {
	by, mean := deviation(x), 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for k := range x {
		x[k] = (x[k] - mean) / by
	}
}

// What the functions would lose as dot products: z in TF32 is off by up to 2^-11 of itself, and ℘ near its pole at the
// period 2ω1, 1/δ² at the distance δ, by 2·(2^-11·|z|)/δ of itself: all of it within a thousandth of a period.
func TestAPoleWouldNotSurviveTF32(t *testing.T) {
	l := gomlxtest.Must(weierstrass.NewLattice(1.3, 1.1))(t)
	for _, distance := range []float64{0.3, 0.03, 0.003} {
		worst := 0.0
		for i := range 100 {
			z := 2.6 + distance*(1+float64(i)/997)
			exact, _ := l.Eval(complex(z, 0))
			rounded, _ := l.Eval(complex(tf32(z), 0))
			worst = max(worst, math.Abs(real(rounded-exact))/math.Abs(real(exact)))
		}
		bound := 2 * math.Ldexp(2.6+1.11*distance, -11) / distance // to first order
		t.Logf("%g from the pole: %.2g of ℘, first order %.2g", distance, worst, bound)
		if worst > 2*bound || worst < bound/20 {
			t.Errorf("%g from the pole ℘ is off by %g of itself, want about %g", distance, worst, bound)
		}
	}
}
