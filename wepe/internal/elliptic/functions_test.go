// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"math"
	"math/cmplx"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func hostLattice(t *testing.T, omega1, re, im float64) weierstrass.Lattice {
	t.Helper()
	return gomlxtest.Must(weierstrass.New(complex(omega1, 0), complex(re, im)))(t)
}

// fromPole is the distance of z from the nearest lattice point.
func fromPole(z complex128, omega1, re, im float64) float64 {
	nearest := math.Inf(1)
	for step := -4.0; step <= 4; step++ {
		n := math.Round(imag(z)/(2*im)) + step
		m := math.Round((real(z) - 2*n*re) / (2 * omega1))
		nearest = min(nearest, math.Hypot(real(z)-2*m*omega1-2*n*re, imag(z)-2*n*im))
	}
	return nearest
}

// hostSphere is S(s·w) and S(s·w′) by the host.
func hostSphere(t *testing.T, z complex128, omega1, re, im, s float64) []float64 {
	t.Helper()
	point, prime := hostLattice(t, omega1, re, im).Sphere().At(z)
	point, prime = weierstrass.Dilated(point, s), weierstrass.Dilated(prime, s)
	return append(point[:], prime[:]...)
}

// function is the input of an encoder's features, of x, y, ω1, Re ω3, Im ω3 and α_scale.
type function struct {
	name        string
	rectangular bool // Re ω3 = 0
	sphere      bool // six parts, in place of ℘ and ℘′ without α_scale
	build       func(in []*Node) []*Node
}

var functions = []function{
	{"P", true, false, func(in []*Node) []*Node { return parts(P(point(in), Rectangle(in[2], in[4]))) }},
	{"P, oblique", false, false, func(in []*Node) []*Node {
		return parts(P(point(in), Reduced(in[2], omega3Of(in))))
	}},
	{"Sphere", true, true, func(in []*Node) []*Node {
		return channels(Sphere(point(in), Rectangle(in[2], in[4]), in[5]))
	}},
	{"Sphere, oblique", false, true, func(in []*Node) []*Node {
		return channels(Sphere(point(in), Reduced(in[2], omega3Of(in)), in[5]))
	}},
}

// allFunctions are these, and the other functions of features.
var allFunctions = append([]function{
	{"Sum.P", true, false, func(in []*Node) []*Node { return parts(ReleasedSum.P(point(in), in[2], in[4])) }},
}, functions...)

func point(in []*Node) ComplexNode    { return ComplexNode{in[0], in[1]} }
func omega3Of(in []*Node) ComplexNode { return ComplexNode{in[3], in[4]} }

func parts(p, pPrime ComplexNode) []*Node { return []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im} }

func channels(sphere, prime *Node) (out []*Node) {
	for _, s := range []*Node{sphere, prime} {
		for c := range 3 {
			out = append(out, Channel(s, c))
		}
	}
	return out
}

// withSlopes returns the parts of f, and the gradients of of(part) by each input.
func (f function) withSlopes(of func(*Node) *Node) func(in []*Node) []*Node {
	return func(in []*Node) []*Node {
		out := f.build(in)
		unused := ReduceAllSum(MulScalar(Stack(in[2:], 0), 0)) // a function need not depend on all
		for _, part := range slices.Clone(out) {
			out = append(out, Gradient(Add(unused, ReduceAllSum(of(part))), in...)...)
		}
		return out
	}
}

// host returns the parts by the host's functions.
func (f function) host(t *testing.T, v []float64) []float64 {
	t.Helper()
	z := complex(v[0], v[1])
	if f.sphere {
		return hostSphere(t, z, v[2], v[3], v[4], v[5])
	}
	p, pPrime := hostLattice(t, v[2], v[3], v[4]).Eval(z)
	return []float64{real(p), imag(p), real(pPrime), imag(pPrime)}
}

// scales are the units of roundings of ℘ and ℘′, or of their points: ℘ has zeros, and α_scale stretches the sphere
// somewhere.
func (f function) scales(t *testing.T, v, values []float64) [2]float64 {
	if f.sphere {
		s := max(v[5], 1/v[5])
		return [2]float64{s, s}
	}
	lattice := hostLattice(t, v[2], v[3], v[4])
	e1, _ := lattice.Eval(complex(v[2], 0))
	e3, _ := lattice.Eval(complex(v[3], v[4]))
	scale := cmplx.Abs(e1-e3) + cmplx.Abs(e1)
	return [2]float64{math.Hypot(values[0], values[1]) + scale, math.Hypot(values[2], values[3]) + math.Pow(scale, 1.5)}
}

// At multiples of 2ω1 = 2 and around them.
func TestFunctions_and_their_gradients_are_finite_at_and_around_poles_of_every_lattice(t *testing.T) {
	points := func() (x, y []float32) {
		for _, m := range []float32{0, 1, -3, 31} {
			for _, r := range []float32{0, 1e-45, 1e-38, 1e-30, 1e-20, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-3, 0.7,
				1} {
				for _, direction := range [][2]float32{{1, 0}, {0, 1}, {-0.6, 0.8}} {
					x, y = append(x, 2*m+r*direction[0]), append(y, r*direction[1])
				}
			}
		}
		return x, y
	}
	for _, f := range allFunctions {
		compress := func(x *Node) *Node { return Tanh(MulScalar(x, 0.15)) }
		alphaScales, leans := []float32{1}, []float32{0}
		if f.sphere {
			compress, alphaScales = func(x *Node) *Node { return x }, []float32{1e-6, 1, 1e6}
		}
		if !f.rectangular {
			leans = []float32{-1e3, -0.5, 0, 0.381966, 1, 617.3}
		}
		exec := gomlxtest.Must(NewExec(gomlxtest.Backend(), f.withSlopes(compress)))(t)
		check := func(omega1, re, im, alphaScale float32) {
			x, y := points()
			values := call(t, exec, dtypes.Float32, x, y, omega1, re, im, alphaScale)
			for i := range values {
				if !finite(values[i]) {
					t.Errorf("%s: ω1 = %g, ω3 = %g+%gi, α_scale %g: output %d is not finite", f.name, omega1, re, im,
						alphaScale, i)
				}
			}
			for half := 0; f.sphere && half < 6; half += 3 {
				for k := range x {
					norm := math.Hypot(math.Hypot(values[half][k], values[half+1][k]), values[half+2][k])
					if !(math.Abs(norm-1) < 5e-6) {
						t.Errorf("%s: ω1 = %g, ω3 = %g+%gi, α_scale %g: |S| = %g at (%g, %g)", f.name, omega1, re, im, alphaScale,
							norm, x[k], y[k])
					}
				}
			}
		}
		for _, omega1 := range []float32{1, 1e3} {
			for _, re := range leans {
				for _, im := range []float32{1e-3, 0.02, 0.3, 1, 50, 1e3} {
					for _, alphaScale := range alphaScales {
						check(omega1, re, im, alphaScale)
					}
				}
			}
		}
		exec.Finalize()
	}
}

// By default XLA computes float32 products on CUDA in TF32, whose operands have 10 bits of mantissa. This affects only
// dot products, and no function of ℘ contains one, forward or backward.
func TestNoFunctionContainsADotProductThatTF32Rounds(t *testing.T) {
	for _, f := range allFunctions {
		g := NewGraph(gomlxtest.Backend(), f.name)
		in := make([]*Node, 6)
		for i := range in {
			in[i] = Const(g, []float32{0.3, 0.5, 0.7})
			if i >= 2 {
				in[i] = Const(g, float32(1.3))
			}
		}
		f.withSlopes(func(x *Node) *Node { return x })(in)
		for _, node := range g.Nodes() {
			if node.Type() == NodeTypeDotGeneral {
				t.Errorf("%s contains a dot product: %s", f.name, node)
			}
		}
		g.Finalize()
	}
}

func finite(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}
