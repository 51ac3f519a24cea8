// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func finite(values []float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Spans of 1.2 put patches of 3×3 and 6×9 grids exactly on poles (u = v = 5/6); the extreme ω3′ and α_scale are beyond
// anything that training reaches.
func TestEncoding_and_gradients_are_finite_for_every_grid_lattice_and_scale(t *testing.T) {
	for _, mode := range []Mode{Paper, Release} {
		for _, grid := range [][2]int{{1, 1}, {1, 7}, {3, 3}, {6, 9}, {14, 14}, {40, 37}} {
			for _, span := range []float64{0.01, 0.4, 1, 1.2} {
				store := model.NewStore()
				exec, err := model.NewExec(gomlxtest.Backend(), store, func(s *model.Scope, x *Node) []*Node {
					e := New(s, grid[0], grid[1], 6).WithPrefix(1).WithMode(mode).WithSpan(span, span).UseExact().Done()
					p, pPrime := e.Values(x.Graph())
					out := e.PreEncode(x, nil, 1)
					loss := ReduceAllSum(Mul(out, ramp(x.Graph(), out.Shape().Dimensions...)))
					nodes := []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im, out}
					return append(nodes, s.BuildTrainableVariablesGradientsGraph(loss)...)
				})
				if err != nil {
					t.Fatal(err)
				}
				x := tensors.FromScalarAndDimensions(float32(1), 1, grid[0]*grid[1]+1, 6)
				for _, omega3 := range []float64{1e-6, 0.02, 0.3, weierstrass.OmegaSquare, 8, 50, 2000} {
					for _, alphaScale := range []float64{1e-4, 0.15, 100} {
						for name, raw := range map[string]float64{
							"/wepe/omega3_raw":      softplusInverse(omega3),
							"/wepe/alpha_scale_raw": mode.rawAlphaScale(alphaScale),
						} {
							value := tensors.FromScalar(float32(raw))
							if v := store.GetVariable(name); v != nil {
								if err := v.SetValue(value); err != nil {
									t.Fatal(err)
								}
							} else if _, err := store.CreateVariable(name, value); err != nil {
								t.Fatal(err)
							}
						}
						outputs, err := exec.Call(x)
						if err != nil {
							t.Fatal(err)
						}
						for i, output := range outputs {
							if !finite(gomlxtest.Values(t, output)) {
								t.Errorf("%s, grid %v, span %g, ω3′ %g, α_scale %g: output %d is not finite",
									mode, grid, span, omega3, alphaScale, i)
							}
						}
					}
				}
				exec.Finalize()
			}
		}
	}
}

func TestP_and_the_sum_are_finite_at_and_around_poles_in_values_and_gradients(t *testing.T) {
	var x, y []float32
	for _, m := range []float32{0, 1, -2, 31} {
		for _, r := range []float32{0, 1e-45, 1e-38, 1e-30, 1e-20, 1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-3, 0.9} {
			for _, direction := range [][2]float32{{1, 0}, {0, 1}, {-0.6, 0.8}} {
				x = append(x, m*2+r*direction[0])
				y = append(y, -m*2+r*direction[1])
			}
		}
	}
	for _, f := range []struct {
		name string
		p    func(z ComplexNode, omega1, omega3p *Node) (p, pPrime ComplexNode)
	}{{"P", P}, {"LatticeSum.P", DefaultLatticeSum().P}} {
		exec, err := NewExec(gomlxtest.Backend(), func(in []*Node) []*Node {
			p, pPrime := f.p(ComplexNode{in[0], in[1]}, in[2], in[3])
			out := []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
			for _, part := range out[:4:4] {
				out = append(out, Gradient(ReduceAllSum(Tanh(MulScalar(part, 0.15))), in...)...)
			}
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, omega3p := range []float32{1, 0.02, 0.3, 50} {
			outputs, err := exec.Call(x, y, float32(1), omega3p)
			if err != nil {
				t.Fatal(err)
			}
			for i, output := range outputs {
				if !finite(gomlxtest.Values(t, output)) {
					t.Errorf("%s: output %d is not finite at ω3′ = %g", f.name, i, omega3p)
				}
			}
		}
	}
}

func TestPole_guard_leaves_every_patch_of_a_1000_by_1000_grid_alone(t *testing.T) {
	// The nearest patch is at u = v = 1/2000, that is |k z| = π α_u u with the smallest α_u of the contract.
	if nearest := math.Pi * 0.01 * 0.5 / 1000; nearest < 100*poleRadius {
		t.Errorf("the nearest patch is at |kz| = %g, the guard acts below %g", nearest, poleRadius)
	}
}
