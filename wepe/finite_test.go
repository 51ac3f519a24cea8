// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func finite(values []float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Grids, lattices, spans, scales and dtypes of the tokens at random over all that the settings take, for every form; the
// first cases are the extremes, among them spans of 1.2, which put patches of 3×3 and 6×9 grids on poles. In every third
// case training has taken ω3′ and α_scale beyond anything that it reaches.
func TestEncoding_and_gradients_are_finite_for_random_grids_lattices_and_spans(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, r.Float64()) }
	extremes := []struct {
		rows, cols           int
		omega3, spanU, spanV float64
	}{
		{1, 1, 0.02, 0.01, 1.2}, {1, 128, 50, 1.2, 0.01}, {128, 1, 0.02, 0.5, 1}, {128, 128, 50, 0.01, 0.01},
		{3, 3, 0.02, 1.2, 1.2}, {6, 9, 50, 1.2, 1.2}, {1, 1, 1.3, 1, 1}, {128, 128, 0.02, 1.2, 1.2},
	}
	for i := range 48 {
		rows, cols := int(between(1, 128.99)), int(between(1, 128.99))
		omega3, spanU, spanV := between(0.02, 50), between(0.01, 1.2), between(0.01, 1.2)
		if i < len(extremes) {
			c := extremes[i]
			rows, cols, omega3, spanU, spanV = c.rows, c.cols, c.omega3, c.spanU, c.spanV
		}
		mode := []Mode{Paper, Release}[i/16%2]
		dtype := []dtypes.DType{dtypes.Float32, dtypes.BFloat16}[i%2]
		sum := DefaultLatticeSum()
		for sum.Cut > 1 && rows*cols*4*sum.Cut*(sum.Cut+1) > 1<<17 { // terms of all patches: memory, not arithmetic
			sum.Cut--
		}
		resolution, alphaScale := int(between(2, 64)), between(1e-4, 100)
		learned := map[string]float64{}
		if i%3 == 2 {
			learned["/wepe/omega3_raw"] = softplusInverse([]float64{1e-6, 2000}[i%2])
			learned["/wepe/alpha_scale_raw"] = mode.rawAlphaScale(alphaScale)
		}
		for name, form := range map[string]kv{
			"exact":          {ParamEvaluation: EvaluateExact},
			"sum":            {ParamEvaluation: EvaluateSum, ParamSumCut: sum.Cut},
			"deflated table": ofTable(Deflated, resolution), "raw table": ofTable(Raw, resolution),
		} {
			omega3 := omega3
			if mode == Release {
				omega3 = min(omega3, releaseMaxOmega3)
			}
			store := model.NewStore()
			for path, raw := range learned {
				if _, err := store.CreateVariable(path, tensors.FromScalar(float32(raw))); err != nil {
					t.Fatal(err)
				}
			}
			outputs := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
				g := in[0].Graph()
				e := New(s, rows, cols, 2).WithPrefix(1).with(kv{ParamMode: mode, ParamAlphaScale: alphaScale}, form,
					ofHalfPeriods(1.3, omega3), ofSpan(spanU, spanV)).Done()
				p, pPrime := e.Values(g)
				x := ConvertDType(BroadcastToDims(in[0], 1, rows*cols+1, 2), dtype)
				out := ConvertDType(e.PreEncode(x, nil, 1), dtypes.Float32)
				loss := ReduceAllSum(Mul(out, ramp(g, out.Shape().Dimensions...)))
				nodes := []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im, out}
				return append(nodes, s.BuildTrainableVariablesGradientsGraph(loss)...)
			}, float32(1))
			for j, output := range outputs {
				if !finite(output) {
					t.Errorf("%s, %s, grid %d×%d, ω3′ %g, spans %g, %g, tokens %s: output %d is not finite", name, mode,
						rows, cols, omega3, spanU, spanV, dtype, j)
				}
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
