// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package elliptic

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

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

// withWeights returns the parts of f at many points and the gradients of the weighted sum of each; the weights are the
// last input.
func (f function) withWeights(in []*Node) []*Node {
	return f.withSlopes(func(part *Node) *Node { return Mul(part, in[6]) })(in[:6])
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
func TestFunctions_and_their_gradients_are_the_hosts(t *testing.T) {
	for _, f := range functions {
		for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.Float64} {
			if dtype == dtypes.Float64 && !float64Runs(t) {
				continue
			}
			t.Run(f.name+" "+dtype.String(), func(t *testing.T) {
				exec := gomlxtest.Must(NewExec(gomlxtest.Backend(), f.withWeights))(t)
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
	epsilon, slopeTolerance := 0x1p-53, 1e-8
	if dtype == dtypes.Float32 {
		epsilon, slopeTolerance = 0x1p-24, 1e-4
	}
	for i, x := range lattice {
		lattice[i] = round(dtype, x)
	}
	size := cmplx.Abs(complex(lattice[0], 0)) + cmplx.Abs(complex(lattice[1], lattice[2]))
	at := func(z complex128) []float64 {
		return []float64{real(z), imag(z), lattice[0], lattice[1], lattice[2], alphaScale}
	}
	var points [][]float64
	var weights []float64
	lines := append(linesOfSymmetry(lattice), anywhere(50, lattice)...)
	for i, z := range append(lines, patchesUpTo(16, lattice)...) {
		z = complex(round(dtype, real(z)), round(dtype, imag(z)))
		distance := fromPole(z, lattice[0], lattice[1], lattice[2]) / size
		if !f.sphere && distance < 1e-4 {
			continue // a pole
		}
		points = append(points, at(z))
		weight := 0.0
		if i < len(lines) && (f.sphere || distance > 0.1) {
			weight = 1
		}
		weights = append(weights, weight)
	}
	got := callAt(t, exec, dtype, points, weights)

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
			speed = max(speed, steepest(slopes[i]))
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

// steepest returns the largest of the slopes at z, per unit of the lattice.
func steepest(slopes [][6]float64) (worst float64) {
	for _, s := range slopes {
		worst = max(worst, math.Abs(s[0]), math.Abs(s[1]))
	}
	return worst
}

// hostSlopes are the derivatives of each part by each input, central differences of fourth order of the host.
func (f function) hostSlopes(t *testing.T, point []float64) [][6]float64 {
	slopes := make([][6]float64, len(f.host(t, point)))
	step := 1e-3
	if f.sphere { // it changes faster in long cells, but never is large
		step = 6e-6
	}
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

// callAt runs a program on the points, which differ in z alone.
func callAt(t *testing.T, exec *Exec, dtype dtypes.DType, points [][]float64, weights []float64) [][]float64 {
	t.Helper()
	x, y := make([]float64, len(points)), make([]float64, len(points))
	for i, point := range points {
		x[i], y[i] = point[0], point[1]
	}
	args := []any{x, y}
	for _, v := range points[0][2:] {
		args = append(args, v)
	}
	return call(t, exec, dtype, append(args, weights)...)
}

// call runs a program on numbers and lists of them, rounded to the type.
func call(t *testing.T, exec *Exec, dtype dtypes.DType, args ...any) (values [][]float64) {
	t.Helper()
	for i, arg := range args {
		switch v := arg.(type) {
		case float64:
			if dtype == dtypes.Float32 {
				args[i] = float32(v)
			}
		case []float64:
			if dtype == dtypes.Float32 {
				args[i] = fixtures.Tensor{Data: v}.Float32()
			}
		}
	}
	for _, output := range gomlxtest.Must(exec.Call(args...))(t) {
		values = append(values, gomlxtest.Values(t, output))
	}
	return values
}
