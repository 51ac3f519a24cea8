// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// The numbers are those of the released scripts: "paper" has the CIFAR-100 script's (docs/evidence/deviations.md, 20),
// "svhn" those of vit_wef_svhn_1k.py; the paper's study fixes β and γ, with γ_k = γ/k² and K = 3.
func TestNamedSurrogate_HasTheNumbersOfTheReleasedScripts(t *testing.T) {
	plus := func(shift, raw float64) float64 { return shift + math.Log1p(math.Exp(raw)) }
	want := map[string]surrogate{}
	want[surrogatePaper] = surrogate{Channels: 4, Omega1: 2.6220575542921196, Omega3: plus(.1, .5), MinOmega3: .1,
		Beta: plus(.01, .1), MinBeta: .01, Gamma: 1, Strength: 1, A: []float64{.05, .05 / 2, .05 / 3},
		B: []float64{.03, .03 / 2}, Eta: .5, EtaPrime: .3, Decay: 1, EpsilonU: .01, EpsilonV: .01, Frequency: 2,
		MinRadius: 1e-6, Scale: .05, Modulation: []float64{1, 1, 1, 1}, Dropout: [2]float64{.1, 0}, Gain: .8,
		Learn: []string{"omega3", "beta", "scale"}}
	study := want[surrogatePaper]
	study.A, study.B, study.Learn = []float64{1, 1. / 4, 1. / 9}, []float64{1, 1. / 4, 1. / 9}, []string{"omega3", "scale"}
	study.Beta, study.MinBeta, study.Gamma = .1, 1e-4, .1
	want[surrogateSweep] = study
	svhn := want[surrogatePaper]
	svhn.Channels, svhn.Gamma, svhn.MinGamma = 6, plus(.1, .2), .1
	svhn.A, svhn.B, svhn.Eta, svhn.EtaPrime = []float64{1, 1. / 4, 1. / 9}, []float64{1, 1. / 4}, .7, .5
	svhn.EpsilonU, svhn.EpsilonV, svhn.Frequency, svhn.Scale = .02, .02, 3, .03
	svhn.Modulation, svhn.Dropout = []float64{1, .8, 1, 1, 1, 1}, [2]float64{.1, .05}
	svhn.Learn = []string{"omega3", "beta", "scale", "modulation", "gamma"}
	want[surrogateSVHN] = svhn
	for _, name := range surrogateNames() {
		got, want := fmt.Sprintf("%.12v", namedSurrogate(name)), fmt.Sprintf("%.12v", want[name])
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
	}
}

func TestSurrogate_drops_units_of_its_two_hidden_layers_in_training_only(t *testing.T) {
	for _, rates := range [][2]float64{{0, 0}, {0.5, 0}, {0, 0.5}} {
		s := namedSurrogate(surrogatePaper)
		s.Dropout = rates
		encode := func(store *model.Store, training bool) []float64 {
			return run(t, store, func(scope *model.Scope, in []*Node) []*Node {
				scope.Store().SetTraining(in[0].Graph(), training)
				return []*Node{surrogateOf(scope, rows, cols, 8, s).Encode(in[0].Graph())}
			}, float32(0))[0]
		}
		store := model.NewStore()
		evaluated := encode(store, false)
		if !slices.Equal(encode(store, false), evaluated) {
			t.Errorf("dropout %v: evaluation is not deterministic", rates)
		}
		drops := rates[0]+rates[1] > 0
		if slices.Equal(encode(store, true), evaluated) == drops {
			t.Errorf("dropout %v: training and evaluation agree: %v", rates, !drops)
		}
	}
}

// surrogateSet is a parameter set of surrogate.json, whose amplitudes a and b have their γ in them.
type surrogateSet struct {
	ID                     string
	Omega1, Omega3p, Beta  float64
	EpsU                   float64 `json:"eps_u"`
	EpsV                   float64 `json:"eps_v"`
	Eps, Eta, Alpha, Gamma float64
	EtaP                   float64 `json:"eta_p"`
	A, B                   []float64
}

// surrogate returns the field of a set, the paper's study of β and γ in other coordinates, with the set's amplitudes.
func (s surrogateSet) surrogate() surrogate {
	f := namedSurrogate(surrogateSweep)
	f.A, f.B = s.A, s.B
	f.Omega1, f.Eta, f.EtaPrime = s.Omega1, s.Eta, s.EtaP
	f.EpsilonU, f.EpsilonV, f.MinRadius = s.EpsU, s.EpsV, s.Eps
	return f
}

func TestSurrogate_field_and_its_gradients_are_those_of_50_digits(t *testing.T) {
	fixtures.Each(t, testSurrogateField)
}

func testSurrogateField(t *testing.T) {
	var file struct {
		Sets  []surrogateSet
		Grids []struct {
			Set     string
			H, W    int
			Columns []string
			Points  [][]float64
			Grad    map[string][]float64 `json:"grad_per_channel"`
		}
	}
	fixtures.JSON(t, "weierstrass", "surrogate.json", &file)
	sets := make(map[string]surrogateSet)
	for _, s := range file.Sets {
		sets[s.ID] = s
	}
	dtype, valueTol, gradientTol := dtypes.Float64, 1e-13, 1e-11
	if !float64Runs(t) {
		dtype, valueTol, gradientTol = dtypes.Float32, 5e-6, 1e-4 // the tolerances of official_wepe_finetune for float32
	}
	for _, grid := range file.Grids {
		s := sets[grid.Set]
		name := fmt.Sprintf("%s %d×%d", grid.Set, grid.H, grid.W)
		u, v := make([]float64, len(grid.Points)), make([]float64, len(grid.Points))
		for k := range u {
			u[k] = (float64(k%grid.W) + 0.5) / float64(grid.W)
			v[k] = (float64(k/grid.W) + 0.5) / float64(grid.H)
		}
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			g := in[0].Graph()
			x := make([]*Node, len(in))
			for i := range in {
				x[i] = ConvertDType(in[i], dtype)
			}
			one := Scalar(g, dtype, 1)
			f := surrogateField{surrogate: s.surrogate(), omega3: x[0], beta: x[1], scale: x[2], a: x[3], b: x[4],
				gamma: one, strength: one, modulation: ConstAsDType(g, dtype, []float64{1, 1, 1, 1})}
			z := f.coordinates(u, v)
			p, pPrime := f.values(z)
			features := f.features(u, v)
			out := []*Node{z.Re, z.Im, p.Re, p.Im, pPrime.Re, pPrime.Im, features}
			for channel := range 4 {
				pick := make([]float64, 4)
				pick[channel] = 1
				sum := ReduceAllSum(Mul(features, InsertAxes(ConstAsDType(g, dtype, pick), 0)))
				out = append(out, Gradient(sum, x...)...)
			}
			return out
		}, s.Omega3p, s.Beta, s.Alpha, s.A, s.B)

		column := func(names ...string) (values []float64) {
			for _, point := range grid.Points {
				for _, name := range names {
					for c := range grid.Columns {
						if grid.Columns[c] == name {
							values = append(values, point[c])
						}
					}
				}
			}
			return values
		}
		for i, of := range []string{"z_re", "z_im", "re", "im", "re_deriv", "im_deriv"} {
			gomlxtest.Near(t, name+" "+of, got[i], column(of), valueTol)
		}
		gomlxtest.Near(t, name+" features", got[6], column("f1", "f2", "f3", "f4"), valueTol)
		parameters := [][]string{{"omega3p"}, {"beta"}, {"alpha"}, nil, nil}
		for k := range s.A {
			parameters[3] = append(parameters[3], fmt.Sprintf("a%d", k+1))
		}
		for k := range s.B {
			parameters[4] = append(parameters[4], fmt.Sprintf("b%d", k+1))
		}
		for channel := range 4 {
			for i, names := range parameters {
				var want []float64
				for _, name := range names {
					want = append(want, grid.Grad[name][channel])
				}
				of := fmt.Sprintf("%s d f%d/d %v", name, channel+1, names)
				gomlxtest.Near(t, of, got[7+channel*len(parameters)+i], want, gradientTol)
			}
		}
	}
}

// surrogateOf is an encoder of a field that need not have a name.
func surrogateOf(scope *model.Scope, rows, cols, width int, s surrogate) *surrogateEncoder {
	return newSurrogateEncoder(scope.In(scopeSurrogate), grid{rows: rows, cols: cols, width: width}, s)
}

func TestSurrogate_and_its_gradients_are_finite_everywhere(t *testing.T) {
	for _, name := range surrogateNames() {
		s := namedSurrogate(name)
		s.Learn = []string{"omega3", "beta", "gamma", "strength", "scale", "modulation", "a", "b"}
		s.EpsilonU, s.EpsilonV, s.Frequency = -s.Omega1/2, 0, 1 // u = ½ is at Re z = 0
		for _, grid := range gomlxtest.InTurn(2, [2]int{1, 1}, [2]int{1, 7}, [2]int{13, 3}, [2]int{24, 24}) {
			store := model.NewStore()
			exec := gomlxtest.Must(model.NewExec(gomlxtest.Backend(), store, func(scope *model.Scope, x *Node) []*Node {
				e := surrogateOf(scope, grid[0], grid[1], 6, s)
				f := e.field(x.Graph())
				p, pPrime := f.values(f.coordinates(e.centres()))
				out := e.PreEncode(x, nil, 1)
				loss := ReduceAllSum(Mul(out, ramp(x.Graph(), out.Shape().Dimensions...)))
				return append([]*Node{p.Re, p.Im, pPrime.Re, pPrime.Im, out},
					scope.BuildTrainableVariablesGradientsGraph(loss)...)
			}))(t)
			x := tensors.FromScalarAndDimensions(float32(1), 1, grid[0]*grid[1], 6)
			for _, raw := range []float32{-3e38, -30, 0, 30, 3e38} {
				for _, scale := range []float32{1e-4, 0.05, -20} {
					for path, value := range map[string]float32{
						"omega3_raw": raw, "beta_raw": raw, "gamma_raw": raw, "scale": scale,
					} {
						path, x := "/surrogate/"+path, tensors.FromScalar(value)
						if v := store.GetVariable(path); v != nil {
							gomlxtest.NoError(t, v.SetValue(x))
						} else {
							gomlxtest.Must(store.CreateVariable(path, x))(t)
						}
					}
					outputs := gomlxtest.Must(exec.Call(x))(t)
					for i, output := range outputs {
						if !finite(gomlxtest.Values(t, output)) {
							t.Errorf("%s, grid %v, raw %g, scale %g: output %d is not finite", name, grid, raw, scale, i)
						}
					}
				}
			}
			exec.Finalize()
		}
	}
}

// Functions without another test on lines of symmetry: features of each encoding in float32 equal those in float64 on
// all patches of square grids up to 16×16, in a program with a gradient for every channel. Rounding changes a feature
// by at most 1e-3, beside a pole; choosing the wrong side changes it by its size.
func TestSumAndSurrogates_Float32IsFloat64OnAllPatches(t *testing.T) {
	if !float64Runs(t) {
		t.Skip("this backend has no float64")
	}
	var u, v []float64
	for n := 1; n <= 16; n++ {
		x, y := grid{rows: n, cols: n}.centres()
		u, v = append(u, x...), append(v, y...)
	}
	sum := func(scope *model.Scope, dtype dtypes.DType, g *Graph) *Node {
		l := New(scope, 16, 16, 2).Field().(*field)
		omega1 := Scalar(g, dtype, l.config.omega1)
		omega3, alphaScale := ConvertDType(l.omega3.NodeValue(g), dtype), ConvertDType(l.alphaScale.NodeValue(g), dtype)
		omega3, alphaScale = paper.omega3(omega3), paper.alphaScale(alphaScale)
		x, y := make([]float64, len(u)), make([]float64, len(v))
		for i := range u {
			x[i], y[i] = 2*defaultSpan*l.config.omega1*u[i], 2*defaultSpan*v[i]
		}
		z := ComplexNode{Re: ConstAsDType(g, dtype, x), Im: Mul(ConstAsDType(g, dtype, y), omega3)}
		p, pPrime := elliptic.ReleasedSum.P(z, omega1, omega3)
		return l.compressed(alphaScale, p, pPrime)
	}
	surrogateNamed := func(name string) func(*model.Scope, dtypes.DType, *Graph) *Node {
		return func(scope *model.Scope, dtype dtypes.DType, g *Graph) *Node {
			f := New(scope, 16, 16, 2).with(kv{ParamSurrogate: name}).surrogateEncoder().field(g)
			for _, part := range []**Node{&f.omega3, &f.beta, &f.gamma, &f.strength, &f.scale, &f.modulation, &f.a, &f.b} {
				*part = ConvertDType(*part, dtype)
			}
			return f.features(u, v)
		}
	}
	for name, features := range map[string]func(*model.Scope, dtypes.DType, *Graph) *Node{
		"sum":               sum,
		"surrogate paper":   surrogateNamed(surrogatePaper),
		"surrogate release": surrogateNamed(surrogateSVHN),
	} {
		var of [2][]float64
		for i, dtype := range []dtypes.DType{dtypes.Float32, dtypes.Float64} {
			of[i] = run(t, gomlxtest.Seeded(t, 3), func(scope *model.Scope, in []*Node) []*Node {
				g := in[0].Graph()
				x := features(scope, dtype, g)
				outputs := []*Node{x}
				for k := range x.Shape().Dim(-1) {
					loss := ReduceAllSum(elliptic.Channel(x, k))
					for v := range scope.Store().IterVariables() {
						if v.Trainable && v.InUseByGraph(g) {
							outputs = append(outputs, Gradient(loss, v.NodeValue(g))...)
						}
					}
				}
				return outputs
			}, float32(0))[0]
		}
		gomlxtest.NearAbs(t, name, of[0], of[1], 1e-3)
	}
}
