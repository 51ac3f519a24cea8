// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// hostSphere is S(s·w) and S(s·w′) by the host.
func hostSphere(t *testing.T, z complex128, omega1, re, im, s float64) []float64 {
	t.Helper()
	point, prime := hostOblique(t, omega1, re, im).Sphere().At(z)
	var out []float64
	for _, p := range [][3]float64{point, prime} {
		p = weierstrass.Dilated(p, s)
		out = append(out, p[:]...)
	}
	return out
}

// sphereDerivatives builds the six numbers at one point and their gradients by x, y, ω1, ω3′, Re ω3 and α_scale.
func sphereDerivatives(oblique bool) func(in []*Node) []*Node {
	return func(in []*Node) []*Node {
		z, omega1, omega3p, re, alphaScale := ComplexNode{in[0], in[1]}, in[2], in[3], in[4], in[5]
		point, prime := Sphere(z, omega1, omega3p, alphaScale)
		inputs := []*Node{in[0], in[1], omega1, omega3p, alphaScale}
		if oblique {
			point, prime = SphereOblique(z, omega1, ComplexNode{re, omega3p}, alphaScale)
			inputs = in
		}
		out := []*Node{}
		for c := range 3 {
			out = append(out, channel(point, c))
		}
		for c := range 3 {
			out = append(out, channel(prime, c))
		}
		for _, part := range out[:6:6] {
			gradients := Gradient(part, inputs...)
			if !oblique { // in the order of in
				gradients = []*Node{gradients[0], gradients[1], gradients[2], gradients[3], ZerosLike(re), gradients[4]}
			}
			out = append(out, gradients...)
		}
		return out
	}
}

// Lattices are up to four times as long as wide and up to two cells away from 0, where z itself has lost two digits.
func TestSphere_and_its_gradients_are_the_hosts(t *testing.T) {
	rectangles := [][3]float64{{2.6, 0, 2.6}, {1.3, 0, 3.1}, {2.9, 0, 1.1}, {1, 0, 4}}
	for _, dtype := range []dtypes.DType{dtypes.Float64, dtypes.Float32} {
		epsilon, slopeTolerance := 0x1p-24, 1e-4
		if dtype == dtypes.Float64 {
			if epsilon, slopeTolerance = 0x1p-53, 1e-7; !float64Runs(t) {
				continue
			}
		}
		for name, form := range map[string]struct {
			oblique  bool
			lattices [][3]float64
		}{"rectangular": {false, rectangles}, "oblique": {true, append(rectangles, obliqueLattices...)}} {
			t.Run(dtype.String()+" "+name, func(t *testing.T) {
				exec, err := NewExec(gomlxtest.Backend(), sphereDerivatives(form.oblique))
				if err != nil {
					t.Fatal(err)
				}
				defer exec.Finalize()
				random := rand.New(rand.NewPCG(5, 7))
				worst, worstSlope := 0.0, 0.0
				for _, lattice := range form.lattices {
					for i := range 30 {
						x, y := 2*random.Float64()-1, 2*random.Float64()-1
						if i < 9 { // half-periods and the pole
							x, y = float64(i%3-1)/2, float64(i/3-1)/2
						}
						inputs := []float64{2*x*lattice[0] + 2*y*lattice[1], 2 * y * lattice[2], lattice[0], lattice[2],
							lattice[1], math.Exp(random.NormFloat64())}
						if dtype == dtypes.Float32 {
							for i, v := range inputs {
								inputs[i] = float64(float32(v))
							}
						}
						at := func(v []float64) []float64 {
							return hostSphere(t, complex(v[0], v[1]), v[2], v[4], v[3], v[5])
						}
						got, want := evaluate(t, exec, dtype, inputs), at(inputs)
						var moves [2]float64 // of either point, for relative changes of the inputs by 1
						for input := range inputs {
							if input == 4 && !form.oblique {
								continue
							}
							const step = 1e-5
							up, down := append([]float64{}, inputs...), append([]float64{}, inputs...)
							up[input] += step
							down[input] -= step
							above, below := at(up), at(down)
							steepest := 0.0
							for part := range 6 {
								slope := math.Abs(above[part]-below[part]) / (2 * step)
								steepest = max(steepest, slope)
								moves[part/3] += slope * math.Abs(inputs[input])
							}
							for part := range 6 {
								slope, want := got[6+6*part+input], (above[part]-below[part])/(2*step)
								// The difference is off by the third derivative, which on a unit sphere is about steepest³.
								d := (math.Abs(slope-want) - step*step*steepest*steepest*steepest) / (1 + steepest)
								worstSlope = max(worstSlope, d)
								if !(d <= slopeTolerance) {
									t.Errorf("lattice %v, %v: ∂%d/∂%d is %g, want %g", lattice, inputs, part, input, slope, want)
								}
							}
						}
						scale := max(inputs[5], 1/inputs[5]) // by which α_scale stretches the sphere somewhere
						for part := range 6 {
							units := math.Abs(got[part]-want[part]) / (epsilon * (scale + moves[part/3]))
							worst = max(worst, units)
							if !(units <= 8) {
								t.Errorf("lattice %v, %v: part %d is %g, want %g: %.3g units", lattice, inputs, part, got[part],
									want[part], units)
							}
						}
					}
				}
				t.Logf("worst error %.2g of 8 units, of a gradient %.2g", worst, worstSlope)
			})
		}
	}
}

func TestSphere_and_its_gradients_are_finite_for_every_lattice_at_and_around_poles(t *testing.T) {
	var x, y []float32
	for _, m := range []float32{0, 1, -3} {
		for _, r := range []float32{0, 1e-45, 1e-38, 1e-20, 1e-9, 1e-7, 1e-3, 0.7, 1} {
			for _, direction := range []complex64{1, 1i, -0.6 + 0.8i} {
				x, y = append(x, 2*m+r*real(direction)), append(y, r*imag(direction))
			}
		}
	}
	for name, build := range map[string]func(in []*Node) (point, prime *Node){
		"rectangular": func(in []*Node) (point, prime *Node) {
			return Sphere(ComplexNode{in[0], in[1]}, in[2], in[4], in[5])
		},
		"oblique": func(in []*Node) (point, prime *Node) {
			return SphereOblique(ComplexNode{in[0], in[1]}, in[2], ComplexNode{in[3], in[4]}, in[5])
		},
	} {
		exec, err := NewExec(gomlxtest.Backend(), func(in []*Node) []*Node {
			point, prime := build(in)
			out := []*Node{point, prime}
			for c := range 3 {
				out = append(out, Gradient(ReduceAllSum(channel(point, c)), in...)...)
				out = append(out, Gradient(ReduceAllSum(channel(prime, c)), in...)...)
			}
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, omega1 := range []float32{1, MaxOmega3} {
			for _, re := range []float32{-MaxOmega3, -0.5, 0, 617.3} {
				for _, im := range []float32{MinOmega3, 0.02, 1, 50, MaxOmega3} {
					for _, alphaScale := range []float32{1e-6, 1, 1e6} {
						outputs, err := exec.Call(x, y, omega1, re, im, alphaScale)
						if err != nil {
							t.Fatal(err)
						}
						for i, output := range outputs {
							values := gomlxtest.Values(t, output)
							if !finite(values) {
								t.Errorf("%s: ω1 = %g, ω3 = %g+%gi, α_scale %g: output %d is not finite", name, omega1, re, im,
									alphaScale, i)
							}
							for k := 0; i < 2 && k < len(values); k += 3 {
								if n := values[k]*values[k] + values[k+1]*values[k+1] + values[k+2]*values[k+2]; !(math.Abs(n-1) < 1e-5) {
									t.Errorf("%s: ω1 = %g, ω3 = %g+%gi, α_scale %g: |S|² = %g at (%g, %g)", name, omega1, re, im,
										alphaScale, n, x[k/3], y[k/3])
								}
							}
						}
					}
				}
			}
		}
		exec.Finalize()
	}
}
