// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func hostOblique(t *testing.T, omega1, re, im float64) weierstrass.Oblique {
	t.Helper()
	l, err := weierstrass.NewOblique(complex(omega1, 0), complex(re, im))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// obliqueDerivatives builds the four parts of ℘ and ℘′ and the gradients of each by x, y, ω1, Re ω3 and Im ω3.
func obliqueDerivatives(in []*Node) []*Node {
	p, pPrime := POblique(ComplexNode{in[0], in[1]}, in[2], ComplexNode{in[3], in[4]})
	out := []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
	for _, part := range out[:4:4] {
		out = append(out, Gradient(part, in...)...)
	}
	return out
}

// obliqueLattices are ω1, Re ω3, Im ω3: hexagonal, rhombic, leaning either way, thin, and far from reduced.
var obliqueLattices = [][3]float64{
	{1.5299540370571929, 0.76497701852859645, 1.3249790627140868},
	{2.6, 1.3, 1.1}, {2.6, -0.7, 2.5}, {1, 0.3, 3}, {2, 0.9, 0.7}, {1.5, 4.1, 0.9}, {2.6, 0, 1.7},
}

func TestPOblique_and_its_gradients_are_the_hosts(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Float64, dtypes.Float32} {
		epsilon, slopeTol := 0x1p-24, 1e-3
		if dtype == dtypes.Float64 {
			if epsilon, slopeTol = 0x1p-53, 1e-6; !float64Runs(t) {
				continue
			}
		}
		exec, err := NewExec(gomlxtest.Backend(), obliqueDerivatives)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(11, 6))
		worst := 0.0
		for _, lattice := range obliqueLattices {
			for range 40 {
				x, y := 2*random.Float64()-1, 2*random.Float64()-1 // periods of ω1 and of ω3: up to two cells away
				inputs := []float64{2*x*lattice[0] + 2*y*lattice[1], 2 * y * lattice[2], lattice[0], lattice[1], lattice[2]}
				if dtype == dtypes.Float32 {
					for i, v := range inputs {
						inputs[i] = float64(float32(v))
					}
				}
				got := evaluate(t, exec, dtype, inputs)
				host := hostOblique(t, inputs[2], inputs[3], inputs[4])
				z := complex(inputs[0], inputs[1])
				p, pPrime := host.Eval(z)
				pole := cmplx.Abs(host.Reduce(z))
				p1 := host.P(host.Omega1())
				scale := cmplx.Abs(p1-host.P(host.Omega3())) + cmplx.Abs(p1)
				law := epsilon * (1 + cmplx.Abs(z)/pole)
				for i, c := range []struct {
					want  complex128
					scale float64
				}{{p, scale}, {pPrime, math.Pow(scale, 1.5)}} {
					units := cmplx.Abs(complex(got[2*i], got[2*i+1])-c.want) / (law * (cmplx.Abs(c.want) + c.scale))
					worst = max(worst, units)
					if !(units <= lawConstant) {
						t.Errorf("%s, lattice %v, z = %g, value %d: got %g, want %g: %.3g units", dtype, lattice, z, i,
							complex(got[2*i], got[2*i+1]), c.want, units)
					}
				}
				if pole < 0.3 {
					continue // the finite differences lose more than they are compared to
				}
				for input := range inputs {
					at := func(step float64) (parts [4]float64) {
						moved := append([]float64(nil), inputs...)
						moved[input] += step
						p, pPrime := hostOblique(t, moved[2], moved[3], moved[4]).Eval(complex(moved[0], moved[1]))
						return [4]float64{real(p), imag(p), real(pPrime), imag(pPrime)}
					}
					const step = 1e-5
					up, down := at(step), at(-step)
					for part := range 4 {
						want, slope := (up[part]-down[part])/(2*step), got[4+5*part+input]
						size := math.Pow(1/pole+math.Sqrt(scale), float64(3+part/2)) * (1 + cmplx.Abs(z)/pole)
						if !(math.Abs(slope-want) <= slopeTol*(math.Abs(want)+size)) {
							t.Errorf("%s, lattice %v, z = %g: ∂%d/∂%d = %g, want %g", dtype, lattice, z, part, input, slope,
								want)
						}
					}
				}
			}
		}
		exec.Finalize()
		t.Logf("%s: worst error %.1f of %d units", dtype, worst, lawConstant)
	}
}

func TestPOblique_and_its_gradients_are_finite_for_every_lattice_at_and_around_poles(t *testing.T) {
	var x, y []float32
	for _, m := range []float32{0, 1, -3} {
		for _, r := range []float32{0, 1e-45, 1e-38, 1e-20, 1e-9, 1e-7, 1e-3, 0.7} {
			for _, direction := range [][2]float32{{1, 0}, {0, 1}, {-0.6, 0.8}} {
				x, y = append(x, 2*m+r*direction[0]), append(y, r*direction[1])
			}
		}
	}
	exec, err := NewExec(gomlxtest.Backend(), func(in []*Node) []*Node {
		p, pPrime := POblique(ComplexNode{in[0], in[1]}, in[2], ComplexNode{in[3], in[4]})
		out := []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
		for _, part := range out[:4:4] {
			out = append(out, Gradient(ReduceAllSum(Tanh(MulScalar(part, 0.15))), in...)...)
		}
		return out
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	for _, omega1 := range []float32{1, MaxOmega3} {
		for _, re := range []float32{-MaxOmega3, -0.5, 0, 0.381966, 1, 617.3} {
			for _, im := range []float32{MinOmega3, 0.02, 1, 50, MaxOmega3} {
				outputs, err := exec.Call(x, y, omega1, re, im)
				if err != nil {
					t.Fatal(err)
				}
				for i, output := range outputs {
					if !finite(gomlxtest.Values(t, output)) {
						t.Errorf("ω1 = %g, ω3 = %g+%gi: output %d is not finite", omega1, re, im, i)
					}
				}
			}
		}
	}
}

// Spans of 1.2 put patches of 3×3 and 6×9 grids on poles, and so does a third scale of 0.4.
func TestEncoding_and_bias_of_oblique_and_of_several_lattices_are_finite_with_finite_gradients(t *testing.T) {
	for _, grid := range [][2]int{{3, 3}, {6, 9}} {
		for _, span := range []float64{0.4, 1.2} {
			for _, lattice := range [][2]float64{{0.5, 0.02}, {1.3, 2.2}, {-300, 1}, {0, 50}, {999, MaxOmega3}} {
				got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
					c := New(s, grid[0], grid[1], 6).WithPrefix(1).
						with(ofHalfPeriods(weierstrass.OmegaSquare, lattice[1]), ofSpan(span, span),
							ofOblique(lattice[0], true), ofScales(4, 2))
					rows, bias := c.Done().Encode(in[0].Graph()), c.Bias(2).AttentionBias(in[0].Graph())
					loss := Add(ReduceAllSum(Mul(rows, ramp(in[0].Graph(), rows.Shape().Dimensions...))),
						ReduceAllSum(Mul(bias, ramp(in[0].Graph(), bias.Shape().Dimensions...))))
					return append([]*Node{rows, bias}, s.BuildTrainableVariablesGradientsGraph(loss)...)
				}, float32(0))
				for i, values := range got {
					if !finite(values) {
						t.Errorf("grid %v, span %g, ω3 = %g+%gi: output %d is not finite", grid, span, lattice[0], lattice[1], i)
					}
				}
			}
		}
	}
}
