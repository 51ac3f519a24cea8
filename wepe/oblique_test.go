// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
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

// obliqueFeatures are the host's tanh(α_scale·f) on a lattice with complex ω3, at the patches of (6.1) and (11.6) seen
// by lattices each ratio times smaller than the last, (11.7).
func obliqueFeatures(t *testing.T, rows, cols int, span, omega1, re, im, ratio float64, scales int) []float64 {
	t.Helper()
	host := hostOblique(t, omega1, re, im)
	var out []float64
	for row := range rows {
		for col := range cols {
			factor := 1.0
			for range scales {
				u, v := span*(float64(col)+0.5)/float64(cols), span*(float64(row)+0.5)/float64(rows)
				z := complex(2*u*omega1, 0) + complex(2*v, 0)*complex(re, im)
				p, pPrime := host.Eval(z * complex(factor, 0))
				for _, f := range []float64{real(p), imag(p), real(pPrime), imag(pPrime)} {
					out = append(out, math.Tanh(DefaultAlphaScale*f))
				}
				factor *= ratio
			}
		}
	}
	return out
}

func TestFeatures_of_oblique_and_of_several_lattices_are_the_hosts(t *testing.T) {
	for _, c := range []struct {
		rows, cols, scales          int
		span, omega1, re, im, ratio float64
	}{
		{3, 5, 1, 0.4, 2.6, 1.3, 2.25, 2},
		{5, 2, 1, 0.9, 1.7, -0.4, 0.8, 2}, // over the poles of other cells
		{3, 5, 3, 0.4, 2.6, 0, 1.9, 2},
		{2, 7, 2, 0.3, 2.6, 0, 2.6, 1.7},
		{3, 2, 3, 0.4, 2.6, 0.9, 2.2, 1.6},
	} {
		var weights int
		got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			e := New(s, c.rows, c.cols, 6).
				with(ofHalfPeriods(c.omega1, c.im), ofSpan(c.span, c.span), ofOblique(c.re, false),
					ofScales(c.scales, c.ratio)).Done()
			weights = e.projection.final.weights.Shape().Dim(0)
			return []*Node{e.Features(in[0].Graph()), e.Encode(in[0].Graph())}
		}, float32(0))
		want := obliqueFeatures(t, c.rows, c.cols, c.span, c.omega1, c.re, c.im, c.ratio, c.scales)
		gomlxtest.Near(t, "features", got[0], want, 2e-5)
		if weights != 4*c.scales || !finite(got[1]) {
			t.Errorf("%+v: %d weights a feature, want %d", c, weights, 4*c.scales)
		}
	}
}

// The cells of the paper's ablation: its invariants g2 = 0.8, g3 = 0.2 have a rhombic lattice. At equal area half-periods
// are √(area/own area) as long, z with them, so that features change but for the ratio of the periods.
func TestInvariants_of_either_discriminant_give_the_lattice_at_its_own_or_at_an_equal_area(t *testing.T) {
	const square = weierstrass.OmegaSquare
	for _, c := range []struct{ g2, g3, area float64 }{{1, 0.1, 0}, {1, 0.1, 1}, {0.8, 0.2, 0}, {0.8, 0.2, 1}, {0, 1, 0.5}} {
		got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			e := New(s, 3, 5, 2).with(kv{ParamG2: c.g2, ParamG3: c.g3, ParamArea: c.area}).Done()
			return []*Node{e.Features(in[0].Graph()), e.Omega3(in[0].Graph())}
		}, float32(0))
		omega1, omega3, err := weierstrass.HalfPeriods(c.g2, c.g3)
		if err != nil {
			t.Fatal(err)
		}
		scale := 1.0
		if c.area != 0 {
			scale = math.Sqrt(c.area * square * square / (omega1 * imag(omega3)))
		}
		want := obliqueFeatures(t, 3, 5, DefaultSpan, scale*omega1, scale*real(omega3), scale*imag(omega3), 1, 1)
		gomlxtest.Near(t, fmt.Sprintf("%+v", c), got[0], want, 1e-5)
		gomlxtest.Near(t, "ω3′", got[1], []float64{scale * imag(omega3)}, 1e-6)
	}
}

func TestGradient_of_the_real_part_of_omega3_is_the_finite_difference_of_a_leaning_lattice(t *testing.T) {
	dtype, tol := dtypes.Float64, 1e-7
	if !float64Runs(t) {
		dtype, tol = dtypes.Float32, 1e-3
	}
	const rows, cols, scales = 3, 5, 2
	cosines := make([]float64, rows*cols*4*scales)
	for i := range cosines {
		cosines[i] = math.Cos(float64(i))
	}
	for _, start := range []float64{0, 0.8, -1.1} { // 0: learned away from a rectangle
		got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			c := New(s, rows, cols, 2).with(ofHalfPeriods(2.6, 2.1), ofOblique(start, true), ofScales(scales, 1.5))
			c.dtype = dtype
			e, g := c.Done(), in[0].Graph()
			weight := Reshape(ConstAsDType(g, dtype, cosines), rows*cols, 4*scales)
			loss := ReduceAllSum(Mul(weight, e.Features(g)))
			return Gradient(loss, e.omega3Re.NodeValue(g), e.omega3.NodeValue(g))
		}, float32(0))
		at := func(re, im float64) (loss float64) {
			for i, f := range obliqueFeatures(t, rows, cols, DefaultSpan, 2.6, re, im, 1.5, scales) {
				loss += cosines[i] * f
			}
			return loss
		}
		const step = 1e-5
		wantRe := (at(start+step, 2.1) - at(start-step, 2.1)) / (2 * step)
		wantIm := (at(start, 2.1+step) - at(start, 2.1-step)) / (2 * step) * (1 - math.Exp(-2.1)) // by the raw value
		if math.Abs(got[0][0]-wantRe) > tol*(1+math.Abs(wantRe)) || math.Abs(got[1][0]-wantIm) > tol*(1+math.Abs(wantIm)) {
			t.Errorf("Re ω3 = %g: gradients %g and %g, want %g and %g", start, got[0][0], got[1][0], wantRe, wantIm)
		}
	}
}

func TestA_lattice_is_rectangular_and_alone_unless_asked_otherwise(t *testing.T) {
	store := model.NewStore()
	run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{New(s, rows, cols, width).Done().Features(in[0].Graph())}
	}, float32(0))
	if v := store.GetVariable("/wepe/omega3_re"); v != nil {
		t.Errorf("there is a variable %s", v.Path())
	}
	store = model.NewStore()
	var e *Encoder
	run(t, store, func(s *model.Scope, in []*Node) []*Node {
		e = New(s, rows, cols, width).with(ofOblique(0.25, false)).Done()
		return []*Node{e.Features(in[0].Graph())}
	}, float32(0))
	values, err := e.Scalars()
	if v := store.GetVariable("/wepe/omega3_re"); err != nil || v == nil || v.Trainable || values["omega3_re"] != 0.25 {
		t.Errorf("variable %v, scalars %v, %v: want a fixed omega3_re of 0.25", v, values, err)
	}
}
