// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/rand/v2"
	"strings"
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

// withGradients returns nodes of float32 and the gradients of their sum, weighted by ramps, by all that trains.
func withGradients(s *model.Scope, nodes ...*Node) []*Node {
	var loss *Node
	for _, node := range nodes {
		sum := ReduceAllSum(Mul(node, ramp(node.Graph(), node.Shape().Dimensions...)))
		if loss == nil {
			loss = sum
		} else {
			loss = Add(loss, sum)
		}
	}
	return append(nodes, s.BuildTrainableVariablesGradientsGraph(loss)...)
}

// Grids, lattices, spans, scales and dtypes of the tokens at random over all that the settings take, for every form;
// the first cases are the extremes, among them spans of 1.2 and 3, which put patches of 3×3 and 6×9 grids on poles
// and, modulo the lattice, on one another. In every third case training has taken ω3′ and α_scale beyond anything that
// it reaches.
func TestEncodings_biases_and_their_gradients_are_finite_for_random_grids_lattices_and_spans(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, r.Float64()) }
	extremes := []struct {
		rows, cols           int
		omega3, spanU, spanV float64
	}{
		{1, 1, 0.02, 0.01, 1.2}, {1, 128, 50, 1.2, 0.01}, {128, 1, 0.02, 0.5, 1}, {128, 128, 50, 0.01, 0.01},
		{3, 3, 0.02, 1.2, 1.2}, {6, 9, 50, 1.2, 1.2}, {1, 1, 1.3, 1, 1}, {128, 128, 0.02, 1.2, 1.2}, {4, 9, 8, 3, 3},
		{6, 6, MaxOmega3, 3, 1.2},
	}
	for i := range 48 {
		rows, cols := int(between(1, 128.99)), int(between(1, 128.99))
		omega3, spanU, spanV := between(0.02, 50), between(0.01, 1.2), between(0.01, 1.2)
		if i < len(extremes) {
			c := extremes[i]
			rows, cols, omega3, spanU, spanV = c.rows, c.cols, c.omega3, c.spanU, c.spanV
		}
		mode := []Mode{Paper, Release}[i/16%2]
		if mode == Release {
			omega3 = min(omega3, releaseMaxOmega3)
		}
		dtype := []dtypes.DType{dtypes.Float32, dtypes.BFloat16}[i%2]
		sum := DefaultLatticeSum()
		for sum.Cut > 1 && rows*cols*4*sum.Cut*(sum.Cut+1) > 1<<17 { // terms of all patches: memory, not arithmetic
			sum.Cut--
		}
		resolution, alphaScale := int(between(2, 64)), between(1e-4, 100)
		learned := map[string]float64{}
		if i%3 == 2 {
			learned["omega3_raw"] = softplusInverse([]float64{1e-6, 2000}[i%2])
			learned["alpha_scale_raw"] = mode.rawAlphaScale(alphaScale)
		}
		forms := map[string]kv{
			"exact":          {ParamEvaluation: EvaluateExact},
			"bias":           {ParamEvaluation: EvaluateExact},
			"sum":            {ParamEvaluation: EvaluateSum, ParamSumCut: sum.Cut},
			"deflated table": ofTable(Deflated, resolution), "raw table": ofTable(Raw, resolution),
		}
		if mode == Paper && rows*cols <= 256 { // four scales, the third of which has patches on poles at a span of 0.4
			leaning := []float64{0.5, 1.3, -300, 0, 999}[i%5]
			forms["leaning"] = kv{ParamOmega3Re: leaning, ParamLearnOblique: true, ParamScales: 4}
			forms["leaning bias"] = forms["leaning"]
		}
		for name, form := range forms {
			bias := strings.Contains(name, "bias")
			if bias && rows*cols > 256 {
				continue
			}
			store := model.NewStore()
			for path, raw := range learned {
				for _, scope := range []string{scopeName, scopeBias} {
					if _, err := store.CreateVariable("/"+scope+"/"+path, tensors.FromScalar(float32(raw))); err != nil {
						t.Fatal(err)
					}
				}
			}
			outputs := run(t, store, func(s *model.Scope, in []*Node) []*Node {
				g := in[0].Graph()
				c := New(s, rows, cols, 2).WithPrefix(1).with(kv{ParamMode: mode, ParamAlphaScale: alphaScale}, form,
					ofHalfPeriods(1.3, omega3), ofSpan(spanU, spanV))
				if bias {
					return withGradients(s, biasOf(s, c, 3).AttentionBias(g))
				}
				e := c.Done()
				p, pPrime := e.Values(g)
				x := ConvertDType(BroadcastToDims(in[0], 1, rows*cols+1, 2), dtype)
				out := withGradients(s, ConvertDType(e.PreEncode(x, nil, 1), dtypes.Float32))
				return append(out, p.Re, p.Im, pPrime.Re, pPrime.Im)
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

// At multiples of 2ω1 = 2 and around them. On the thinnest lattice gradients of ℘′ exceed float32 some 1e-12 to 1e-10
// from a pole, and a reduction by many periods may end there.
func TestFunctions_and_their_gradients_are_finite_at_and_around_poles_of_every_lattice(t *testing.T) {
	points := func(omega3p float32) (x, y []float32) {
		radii := []float32{0, 1e-45, 1e-38, 1e-30, 1e-20, 1e-9, 1e-8, 1e-7, 1e-6, 1e-3, 0.7}
		periods := []float32{0, 1, -3}
		if omega3p > MinOmega3 {
			radii, periods = append(radii, 1e-12), append(periods, 31)
		}
		for _, m := range periods {
			for _, r := range radii {
				for _, direction := range [][2]float32{{1, 0}, {0, 1}, {-0.6, 0.8}} {
					x, y = append(x, 2*m+r*direction[0]), append(y, r*direction[1])
				}
			}
		}
		return x, y
	}
	surrogate, _ := NamedSurrogate(SurrogateSVHN)
	for name, f := range map[string]func(z ComplexNode, omega1 *Node, omega3 ComplexNode) (p, pPrime ComplexNode){
		"P": func(z ComplexNode, omega1 *Node, omega3 ComplexNode) (p, pPrime ComplexNode) {
			return P(z, omega1, omega3.Im)
		},
		"LatticeSum.P": func(z ComplexNode, omega1 *Node, omega3 ComplexNode) (p, pPrime ComplexNode) {
			return DefaultLatticeSum().P(z, omega1, omega3.Im)
		},
		"POblique": POblique,
		"surrogate": func(z ComplexNode, omega1 *Node, omega3 ComplexNode) (p, pPrime ComplexNode) {
			g := omega1.Graph()
			one := OnesLike(omega1)
			return surrogateField{Surrogate: surrogate, omega3: omega3.Im, gamma: one, strength: one,
				beta: Scalar(g, dtypes.Float32, surrogate.MinBeta), a: ConstAsDType(g, dtypes.Float32, surrogate.A),
				b: ConstAsDType(g, dtypes.Float32, surrogate.B)}.values(z)
		},
	} {
		exec, err := NewExec(gomlxtest.Backend(), func(in []*Node) []*Node {
			z, omega1, omega3 := ComplexNode{in[0], in[1]}, in[2], ComplexNode{in[3], in[4]}
			p, pPrime := f(z, omega1, omega3)
			out := []*Node{p.Re, p.Im, pPrime.Re, pPrime.Im}
			unused := ReduceAllSum(MulScalar(Stack(in[2:], 0), 0)) // a function need not depend on all
			for _, part := range out[:4:4] {
				out = append(out, Gradient(Add(unused, ReduceAllSum(Tanh(MulScalar(part, 0.15)))), in...)...)
			}
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, omega1 := range []float32{1, MaxOmega3} {
			for _, re := range []float32{-MaxOmega3, -0.5, 0, 0.381966, 1, 617.3} {
				if name != "POblique" && re != 0 {
					continue
				}
				for _, im := range []float32{MinOmega3, 0.02, 0.3, 1, 50, MaxOmega3} {
					x, y := points(im)
					outputs, err := exec.Call(x, y, omega1, re, im)
					if err != nil {
						t.Fatal(err)
					}
					for i, output := range outputs {
						if !finite(gomlxtest.Values(t, output)) {
							t.Errorf("%s: ω1 = %g, ω3 = %g+%gi: output %d is not finite", name, omega1, re, im, i)
						}
					}
				}
			}
		}
		exec.Finalize()
	}
}

func TestPole_guard_leaves_every_patch_of_a_1000_by_1000_grid_alone(t *testing.T) {
	// The nearest patch is at u = v = 1/2000, that is |k z| = π α_u u with the smallest α_u of the contract.
	if nearest := math.Pi * 0.01 * 0.5 / 1000; nearest < 100*poleRadius {
		t.Errorf("the nearest patch is at |kz| = %g, the guard acts below %g", nearest, poleRadius)
	}
}
