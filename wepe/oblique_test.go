// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

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
				p1, _ := host.Eval(complex(inputs[2], 0))
				p3, _ := host.Eval(complex(inputs[3], inputs[4]))
				scale := cmplx.Abs(p1-p3) + cmplx.Abs(p1)
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
