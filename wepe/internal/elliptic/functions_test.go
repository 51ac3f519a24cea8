// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/fixtures"
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

// function is the input of an encoder's features, of x, y, ω1, Re ω3, Im ω3 and α_scale.
type function struct {
	name        string
	rectangular bool // Re ω3 = 0
	sphere      bool // six parts, in place of ℘ and ℘′ without α_scale
	build       func(in []*Node) []*Node
}

var functions = []function{
	{"P", true, false, func(in []*Node) []*Node { return parts(P(point(in), Rectangle(in[2], in[4]))) }},
	{"P, oblique", false, false, func(in []*Node) []*Node { return parts(P(point(in), Reduced(in[2], omega3Of(in)))) }},
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
	z, lattice := complex(v[0], v[1]), hostLattice(t, v[2], v[3], v[4])
	if f.sphere {
		point, prime := lattice.Sphere().At(z)
		point, prime = weierstrass.Dilated(point, v[5]), weierstrass.Dilated(prime, v[5])
		return append(point[:], prime[:]...)
	}
	p, pPrime := lattice.Eval(z)
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
func TestFunctions_AreFiniteAtPoles(t *testing.T) {
	var x, y []float32
	for _, m := range []float32{0, 1, -3, 31} {
		for _, r := range []float32{0, 1e-45, 1e-38, 1e-30, 1e-20, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-3, 0.7,
			1} {
			for _, direction := range [][2]float32{{1, 0}, {0, 1}, {-0.6, 0.8}} {
				x, y = append(x, 2*m+r*direction[0]), append(y, r*direction[1])
			}
		}
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
			values := call(t, exec, dtypes.Float32, x, y, omega1, re, im, alphaScale)
			what := fmt.Sprintf("%s: ω1 = %g, ω3 = %g+%gi, α_scale %g", f.name, omega1, re, im, alphaScale)
			for i, output := range values {
				if slices.ContainsFunc(output, func(v float64) bool { return math.IsNaN(v - v) }) {
					t.Errorf("%s: output %d is not finite", what, i)
				}
			}
			for half := 0; f.sphere && half < 6; half += 3 {
				for k := range x {
					norm := math.Hypot(math.Hypot(values[half][k], values[half+1][k]), values[half+2][k])
					if !(math.Abs(norm-1) < 5e-6) {
						t.Errorf("%s: |S| = %g at (%g, %g)", what, norm, x[k], y[k])
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
func TestFunctions_HaveNoDotProduct(t *testing.T) {
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

// lattices are ω1, Re ω3, Im ω3: most have lines of symmetry on which rounding decides between the two sides of a line:
// rectangles, squares (one given by other periods, one rotated by 45°), rhombs, hexagons, and lattices whose shortest
// periods are far from the given ones.
var lattices = [][3]float64{
	{2.6220575542921196, 0, 2.6220575542921196}, {2.6, 0, 1.7}, {1.3, 0, 3.1}, {2.9, 0, 1.1}, {1, 0, 4}, {1, 0.3, 3},
	{2.6, 2.6, 2.6}, {2.6, 1.3, 1.3}, {1.5299540370571929, 0.76497701852859645, 1.3249790627140868},
	{1.7, -0.85, 1.4722431864335459}, {2.6, 1.3, 1.1}, {2.6, 1.3, 2.25}, {2.6, -0.7, 2.5}, {2, 0.9, 0.7}, {1, 0.3, 2.4},
	{1.5, 4.1, 0.9},
}

// linesOfSymmetry are points on the lines through poles and half-periods along four periods.
func linesOfSymmetry(lattice [3]float64) (z []complex128) {
	omega1, omega3 := complex(lattice[0], 0), complex(lattice[1], lattice[2])
	for _, start := range []complex128{0, omega1, omega3, omega1 + omega3} {
		for _, along := range []complex128{omega1, omega3, omega1 + omega3, omega1 - omega3} {
			for step := -24; step <= 24; step++ {
				z = append(z, start+along*complex(float64(step)/12, 0))
			}
		}
	}
	return z
}

// patchesUpTo are the centres of the patches of all grids up to n×n with span 1, each once.
func patchesUpTo(n int, lattice [3]float64) (z []complex128) {
	var centres []float64
	for cells := 1; cells <= n; cells++ {
		for k := range cells {
			centres = append(centres, float64(2*k+1)/float64(2*cells))
		}
	}
	slices.Sort(centres)
	centres = slices.Compact(centres)
	for _, v := range centres {
		for _, u := range centres {
			z = append(z, complex(2*u*lattice[0], 0)+complex(2*v, 0)*complex(lattice[1], lattice[2]))
		}
	}
	return z
}

// anywhere are points up to two cells away from 0, where z itself has lost two digits.
func anywhere(n int, lattice [3]float64) (z []complex128) {
	random := rand.New(rand.NewPCG(5, 7))
	for range n {
		x, y := 4*random.Float64()-2, 4*random.Float64()-2
		z = append(z, complex(x*lattice[0], 0)+complex(y, 0)*complex(lattice[1], lattice[2]))
	}
	return z
}

// In a program with a gradient for every part XLA computes intermediate results several times, rounded differently:
// decisions by rounding must not change the result.
func TestFunctions_EqualTheHosts(t *testing.T) {
	for _, f := range functions {
		for _, dtype := range floatTypes(t) {
			t.Run(f.name+" "+dtype.String(), func(t *testing.T) {
				exec := gomlxtest.Must(NewExec(gomlxtest.Backend(), func(in []*Node) []*Node { // weights are the last input
					return f.withSlopes(func(part *Node) *Node { return Mul(part, in[6]) })(in[:6])
				}))(t)
				defer exec.Finalize()
				for i, lattice := range lattices {
					if !f.rectangular || lattice[1] == 0 {
						f.check(t, exec, dtype, lattice, round(dtype, []float64{1.25, 0.3, 4.5}[i%3]))
					}
				}
			})
		}
	}
}

func round(dtype dtypes.DType, x float64) float64 {
	if dtype == dtypes.Float32 {
		return float64(float32(x))
	}
	return x
}

// check compares values on all patches, on the lines of symmetry and anywhere; gradients by z on the lines and
// anywhere; and the gradients of the sum over these by ω1, ω3 and α_scale with finite differences of the host. The
// error of a value may be a few roundings, each of the result or of an input.
func (f function) check(t *testing.T, exec *Exec, dtype dtypes.DType, lattice [3]float64, alphaScale float64) {
	t.Helper()
	epsilon := epsilons[dtype]
	slopeTolerance := map[dtypes.DType]float64{dtypes.Float64: 1e-8, dtypes.Float32: 1e-4}[dtype]
	for i, x := range lattice {
		lattice[i] = round(dtype, x)
	}
	size := cmplx.Abs(complex(lattice[0], 0)) + cmplx.Abs(complex(lattice[1], lattice[2]))
	var points [][]float64
	var weights []float64
	lines := append(linesOfSymmetry(lattice), anywhere(50, lattice)...)
	for i, z := range append(lines, patchesUpTo(16, lattice)...) {
		z = complex(round(dtype, real(z)), round(dtype, imag(z)))
		distance := fromPole(z, lattice[0], lattice[1], lattice[2]) / size
		if !f.sphere && distance < 1e-4 {
			continue // a pole
		}
		points = append(points, []float64{real(z), imag(z), lattice[0], lattice[1], lattice[2], alphaScale})
		weighted := i < len(lines) && (f.sphere || distance > 0.1)
		weights = append(weights, map[bool]float64{true: 1}[weighted])
	}
	x, y := make([]float64, len(points)), make([]float64, len(points))
	for i, point := range points { // which differ in z alone
		x[i], y[i] = point[0], point[1]
	}
	got := call(t, exec, dtype, x, y, lattice[0], lattice[1], lattice[2], alphaScale, weights)

	wrong, parts := 0, len(f.host(t, points[0]))
	fail := func(format string, args ...any) {
		if wrong++; wrong <= 3 {
			t.Errorf(format, args...)
		}
	}
	slopes, speed := make([][][6]float64, len(points)), 1.0
	for i, point := range points {
		if weights[i] != 0 {
			slopes[i] = f.hostSlopes(t, point)
			for _, s := range slopes[i] { // per unit of the lattice
				speed = max(speed, math.Abs(s[0]), math.Abs(s[1]))
			}
		}
	}
	sums := make([][6]float64, 2*parts) // of each part, by each input; and of the absolute values
	for i, point := range points {
		want := f.host(t, point)
		scales, speeds := f.scales(t, point, want), [2]float64{speed, speed}
		if !f.sphere { // by ℘″ = 6℘² - g2/2
			speeds = [2]float64{math.Hypot(want[2], want[3]), 6 * scales[0] * scales[0]}
		}
		for part, w := range want {
			half := 2 * part / parts
			move := speeds[half] * (cmplx.Abs(complex(point[0], point[1])) + size)
			if d := math.Abs(got[part][i] - w); !(d <= 8*epsilon*(scales[half]+move)) {
				fail("lattice %v, z = %v: part %d is %g, want %g", lattice, point[:2], part, got[part][i], w)
			}
			if slopes[i] == nil {
				continue
			}
			for input := range 2 {
				by, want := got[parts+6*part+input][i], slopes[i][part][input]
				if d := math.Abs(by - want); !(d <= slopeTolerance*(1+speeds[half])) {
					fail("lattice %v, z = %v: ∂%d/∂%d is %g, want %g", lattice, point[:2], part, input, by, want)
				}
			}
			for input, s := range slopes[i][part] {
				sums[part][input] += s
				sums[parts+part][input] += math.Abs(s)
			}
		}
	}
	for part := range parts {
		for input := 2; input < 6; input++ {
			by := got[parts+6*part+input][0]
			if input == 3 && f.rectangular {
				continue
			}
			limit := slopeTolerance*(1+sums[parts+part][input]) + 64*epsilon*speed*speed*size
			if d := math.Abs(by - sums[part][input]); !(d <= limit) {
				fail("lattice %v: ∂%d/∂%d of the sum is %g, want %g", lattice, part, input, by, sums[part][input])
			}
		}
	}
	if wrong > 3 {
		t.Errorf("lattice %v: %d wrong numbers in all of %d points", lattice, wrong, len(points))
	}
}

// hostSlopes are the derivatives of each part by each input, central differences of fourth order of the host.
func (f function) hostSlopes(t *testing.T, point []float64) [][6]float64 {
	slopes := make([][6]float64, len(f.host(t, point)))
	step := map[bool]float64{false: 1e-3, true: 6e-6}[f.sphere] // it changes faster in long cells, but never is large
	for input := range 6 {
		if input == 3 && f.rectangular {
			continue
		}
		at := func(steps float64) []float64 {
			moved := slices.Clone(point)
			moved[input] += steps * step
			return f.host(t, moved)
		}
		far, up, down, farDown := at(2), at(1), at(-1), at(-2)
		for part := range slopes {
			slopes[part][input] = (8*(up[part]-down[part]) - (far[part] - farDown[part])) / (12 * step)
		}
	}
	return slopes
}

// call runs a program on numbers and lists of them, rounded to the type.
func call(t *testing.T, exec *Exec, dtype dtypes.DType, args ...any) (values [][]float64) {
	t.Helper()
	for i := 0; i < len(args) && dtype == dtypes.Float32; i++ {
		switch v := args[i].(type) {
		case float64:
			args[i] = float32(v)
		case []float64:
			args[i] = fixtures.Tensor{Data: v}.Float32()
		}
	}
	for _, output := range gomlxtest.Must(exec.Call(args...))(t) {
		values = append(values, gomlxtest.Values(t, output))
	}
	return values
}

// S depends only on n/d, down to the size that counts as 0; 0/0 is ∞ and has no slope.
func TestQuotient_IsGuarded(t *testing.T) {
	for _, dtype := range floatTypes(t) {
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
func TestSphere_LongCellsErrByRoundings(t *testing.T) {
	for _, f := range functions[2:] {
		exec := MustNewExec(gomlxtest.Backend(), f.build)
		for _, dtype := range floatTypes(t) {
			epsilon := epsilons[dtype]
			ratios := map[dtypes.DType][]float64{dtypes.Float32: {4, 9, 14, 20, 30}, dtypes.Float64: {9, 20, 60, 176}}[dtype]
			random, worst := rand.New(rand.NewPCG(1, 2)), 0.0
			for i := range 60 * len(ratios) {
				ratio := ratios[i%len(ratios)]
				x, y := float64(i/2%3-1)/2, float64(i/6%3-1)/2 // half-periods and the pole, then around them
				if i > 15*len(ratios) {
					apart := math.Exp(-20 * random.Float64())
					x, y = x+apart*random.NormFloat64(), y+apart*random.NormFloat64()/ratio
				}
				sides := [2]float64{1.3, 1.3 * ratio}
				if i/30%2 == 1 {
					sides[0], sides[1] = sides[1], sides[0]
				}
				in := []float64{2 * x * sides[0], 2 * y * sides[1], sides[0], 0, sides[1], 1}
				for k, v := range in {
					in[k] = round(dtype, v)
				}
				got, want := evaluate(t, exec, dtype, in), f.host(t, in)
				allowed := slices.Repeat([]float64{8 * epsilon}, len(want))
				for k, size := range map[int]float64{0: math.Hypot(in[0], in[1]), 1: math.Hypot(in[0], in[1]), 2: in[2], 4: in[4]} {
					spread := make([]float64, len(want))
					for _, by := range []float64{-8, -2, -1, 1, 2, 8} {
						moved := slices.Clone(in)
						moved[k] += by * epsilon * size
						for part, v := range f.host(t, moved) {
							spread[part] = max(spread[part], math.Abs(v-want[part]))
						}
					}
					floats.Add(allowed, spread)
				}
				for part := range want {
					worst = max(worst, math.Abs(got[part]-want[part])/allowed[part])
					what := fmt.Sprintf("%s, %s, %v: part %d", f.name, dtype, in, part)
					gomlxtest.NearAbs(t, what, got[part:part+1], want[part:part+1], allowed[part])
				}
			}
			t.Logf("%s, %s: at most %.2g of what is allowed", f.name, dtype, worst)
		}
		exec.Finalize()
	}
}
