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
	"github.com/gomlx/gomlx/support/xslices"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// The numbers are those of the released scripts: "paper" has the CIFAR-100 script's (docs/evidence/deviations.md, 20),
// "svhn" those of vit_wef_svhn_1k.py; the paper's study fixes β and γ, with γ_k = γ/k² and K = 3.
func TestNamedSurrogate_HasTheNumbersOfTheReleasedScripts(t *testing.T) {
	plus := func(shift, raw float64) float64 { return shift + math.Log1p(math.Exp(raw)) }
	want := map[string]surrogate{}
	want[surrogatePaper] = surrogate{Channels: 4, Omega1: 2.6220575542921196, Omega3: plus(.1, .5), MinOmega3: .1,
		Beta: plus(.01, .1), MinBeta: .01, Gamma: 1, Strength: 1, A: []float64{.05, .05 / 2, .05 / 3},
		B: []float64{.03, .03 / 2}, Eta: .5, EtaPrime: .3, EpsilonU: .01, EpsilonV: .01, Frequency: 2,
		MinRadius: 1e-6, Scale: .05, Modulation: []float64{1, 1, 1, 1}, Dropout: [2]float64{.1, 0},
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
	for name, want := range want {
		is.Equal(t, name, fmt.Sprintf("%.12v", namedSurrogate(name)), fmt.Sprintf("%.12v", want))
	}
}

func TestSurrogate_DropsHiddenUnitsInTraining(t *testing.T) {
	for _, rates := range [][2]float64{{0, 0}, {0.5, 0}, {0, 0.5}} {
		s := namedSurrogate(surrogatePaper)
		s.Dropout = rates
		encode := func(store *model.Store, training bool) []float64 {
			return run(t, store, func(scope *model.Scope, in []*Node) []*Node {
				scope.Store().SetTraining(in[0].Graph(), training)
				e := surrogateOf(scope, rows, cols, 8, s)
				return []*Node{Concatenate([]*Node{e.Encode(in[0].Graph()), e.hiddenRows(in[0].Graph())}, 0)}
			}, float32(0))[0]
		}
		store := gomlxtest.Seeded(t, 5)
		evaluated := encode(store, false)
		gomlxtest.Near(t, "evaluated again", encode(store, false), evaluated, 0)
		trained := encode(store, true)
		changes := !slices.Equal(trained, evaluated)
		hidden, zeros := trained[rows*cols*8:], 0 // a patch without units of the first layer has none of the second
		for _, v := range hidden {
			if v == 0 {
				zeros++
			}
		}
		is.Equal(t, fmt.Sprint("a quarter of the hidden units is 0: ", rates), 4*zeros > len(hidden), rates[1] > 0)
		is.Equal(t, fmt.Sprintf("dropout %v in training changes", rates), changes, rates[0]+rates[1] > 0)
	}
}

func TestSurrogate_EqualsTheReference(t *testing.T) { fixtures.Each(t, testSurrogateField) }

func testSurrogateField(t *testing.T) {
	type set struct { // whose amplitudes a and b have their γ in them
		ID                                            string
		Omega1, Omega3p, Beta, Eps, Eta, Alpha, Gamma float64
		EpsU                                          float64 `json:"eps_u"`
		EpsV                                          float64 `json:"eps_v"`
		EtaP                                          float64 `json:"eta_p"`
		A, B                                          []float64
	}
	var file struct {
		Sets  []set
		Grids []struct {
			Set     string
			H, W    int
			Columns []string
			Points  [][]float64
			Grad    map[string][]float64 `json:"grad_per_channel"`
		}
	}
	fixtures.JSON(t, "weierstrass", "surrogate.json", &file)
	dtype, valueTol, gradientTol := dtypes.Float64, 1e-13, 1e-11
	if !float64Runs(t) {
		dtype, valueTol, gradientTol = dtypes.Float32, 5e-6, 1e-4 // the tolerances of official_wepe_finetune for float32
	}
	for _, on := range file.Grids {
		field := namedSurrogate(surrogateSweep)
		s := file.Sets[slices.IndexFunc(file.Sets, func(s set) bool { return s.ID == on.Set })]
		field.A, field.B, field.Omega1, field.Eta, field.EtaPrime = s.A, s.B, s.Omega1, s.Eta, s.EtaP
		field.EpsilonU, field.EpsilonV, field.MinRadius = s.EpsU, s.EpsV, s.Eps
		name := fmt.Sprintf("%s %d×%d", on.Set, on.H, on.W)
		got := gomlxtest.Run(t, func(in []*Node) []*Node {
			g, x := in[0].Graph(), make([]*Node, len(in))
			for i := range in {
				x[i] = ConvertDType(in[i], dtype)
			}
			one := Scalar(g, dtype, 1)
			f := surrogateField{surrogate: field, omega3: x[0], beta: x[1], scale: x[2], a: x[3], b: x[4],
				gamma: one, strength: one, modulation: ConstAsDType(g, dtype, []float64{1, 1, 1, 1})}
			z := f.coordinates(grid{rows: on.H, cols: on.W}.centres())
			p, pPrime := f.values(z)
			features := f.features(grid{rows: on.H, cols: on.W}.centres())
			out := []*Node{z.Re, z.Im, p.Re, p.Im, pPrime.Re, pPrime.Im, features}
			for channel := range 4 {
				out = append(out, Gradient(ReduceAllSum(elliptic.Channel(features, channel)), x...)...)
			}
			return out
		}, s.Omega3p, s.Beta, s.Alpha, s.A, s.B)

		column := func(names ...string) (values []float64) {
			for _, point := range on.Points {
				for _, name := range names {
					values = append(values, point[slices.Index(on.Columns, name)])
				}
			}
			return values
		}
		for i, of := range []string{"z_re", "z_im", "re", "im", "re_deriv", "im_deriv"} {
			gomlxtest.Near(t, name+" "+of, got[i], column(of), valueTol)
		}
		gomlxtest.Near(t, name+" features", got[6], column("f1", "f2", "f3", "f4"), valueTol)
		parameters := [][]string{{"omega3p"}, {"beta"}, {"alpha"}, {"a1", "a2", "a3"}, {"b1", "b2", "b3"}}
		for channel := range 4 {
			for i, names := range parameters {
				var want []float64
				for _, name := range names {
					want = append(want, on.Grad[name][channel])
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

func TestSurrogate_IsFinite(t *testing.T) {
	for _, name := range []string{surrogatePaper, surrogateSVHN, surrogateSweep} {
		s := namedSurrogate(name)
		s.Learn = []string{"omega3", "beta", "gamma", "strength", "scale", "modulation", "a", "b"}
		s.EpsilonU, s.EpsilonV, s.Frequency = -s.Omega1/2, 0, 1 // u = ½ is at Re z = 0
		for _, grid := range gomlxtest.InTurn(2, [2]int{1, 1}, [2]int{1, 7}, [2]int{13, 3}, [2]int{24, 24}) {
			store := model.NewStore()
			exec := gomlxtest.Must(model.NewExec(gomlxtest.Backend(), store, func(scope *model.Scope, x *Node) []*Node {
				e := surrogateOf(scope, grid[0], grid[1], 6, s)
				f := e.field(x.Graph())
				p, pPrime := f.values(f.coordinates(e.centres()))
				return append(withGradients(scope, e.PreEncode(x, nil, 1)), p.Re, p.Im, pPrime.Re, pPrime.Im)
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
					for i, output := range gomlxtest.Must(exec.Call(x))(t) {
						what := fmt.Sprintf("%s, grid %v, raw %g, scale %g, output %d", name, grid, raw, scale, i)
						areFinite(t, what, gomlxtest.Values(t, output))
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
	for name, features := range map[string]func(*model.Scope, dtypes.DType, *Graph) *Node{"sum": sum,
		"surrogate paper": surrogateNamed(surrogatePaper), "surrogate release": surrogateNamed(surrogateSVHN)} {
		var of [2][]float64
		for i, dtype := range []dtypes.DType{dtypes.Float32, dtypes.Float64} {
			of[i] = run(t, gomlxtest.Seeded(t, 3), func(scope *model.Scope, in []*Node) []*Node {
				g := in[0].Graph()
				x := features(scope, dtype, g)
				outputs := []*Node{x}
				for k := range x.Shape().Dim(-1) {
					loss := ReduceAllSum(elliptic.Channel(x, k))
					outputs = append(outputs, scope.BuildTrainableVariablesGradientsGraph(loss)...)
				}
				return outputs
			}, float32(0))[0]
		}
		gomlxtest.NearAbs(t, name, of[0], of[1], 1e-3)
	}
}

// The authors' module of fine-tuning, run by its own code: fixture official_wepe_finetune. Tolerances are its README's.
const finetuneSet = "official_wepe_finetune"

type finetuneMeta struct {
	Width     int     `json:"d_model"`
	Omega1    float64 `json:"omega1"`
	Epsilon   float64 `json:"eps_coord"`
	Frequency float64 `json:"coord_frequency_pi"`
	K         int     `json:"K"`
	KPrime    int     `json:"K_prime"`
	Eta       float64 `json:"eta"`
	EtaPrime  float64 `json:"eta_prime"`
	Imaginary float64 `json:"imag_tanh_factor"`
	Mix       struct {
		Grid int     `json:"grid"`
		Gate float64 `json:"pos_encoding_weight"`
	}
	Cases map[string]map[string]any
}

// surrogate is the release's six-channel form with the numbers of the fixture.
func (m finetuneMeta) surrogate() surrogate {
	s := namedSurrogate(surrogateSVHN)
	s.Omega1, s.EpsilonU, s.EpsilonV, s.Frequency = m.Omega1, m.Epsilon, m.Epsilon, m.Frequency
	s.A, s.B, s.Eta, s.EtaPrime = powers(m.K, 1, 2), powers(m.KPrime, 1, 2), m.Eta, m.EtaPrime
	return s
}

// placeSurrogate copies the tensors of the authors' module below a prefix to our paths.
func placeSurrogate(f *gomlxtest.Torch, prefix string) {
	for path, layer := range map[string]int{"hidden": 0, "middle": 4, "output": 8} {
		f.Layer("projection/"+path+"/dense", fmt.Sprintf("%sprojection.%d", prefix, layer))
		if layer < 8 {
			f.Norm("projection/"+path+"/layer_normalization", fmt.Sprintf("%sprojection.%d", prefix, layer+1))
		}
	}
	f.Vector("offset", prefix+"offset")
}

// modulation returns our modulation, which contains the release's constant factor inside tanh(Im p).
func (m finetuneMeta) modulation(values []float64) []float64 {
	out := slices.Clone(values)
	out[1] *= m.Imaginary
	return out
}

// finetuneStores returns the parameters of a case, and the expected gradients.
func finetuneStores(t *testing.T, meta finetuneMeta, name string) (store, gradients *model.Store) {
	t.Helper()
	c := meta.Cases[name]
	f, g := gomlxtest.LoadTorch(t, finetuneSet, "tensors.safetensors", "/surrogate/"),
		gomlxtest.LoadTorch(t, finetuneSet, "tensors.safetensors", "/surrogate/")
	for path, of := range map[string]string{"omega3_raw": "alpha_learn", "beta_raw": "beta_learn",
		"gamma_raw": "gamma_learn", "scale": "scale_factor"} {
		f.Set(path, []float64{c[of].(float64)})
		g.Vector(path, name+".grad."+of)
	}
	modulation := xslices.Map(c["freq_modulation"].([]any), func(x any) float64 { return x.(float64) })
	f.Set("modulation", meta.modulation(modulation), len(modulation))
	g.Vector("modulation", name+".grad.freq_modulation")
	placeSurrogate(f, "param.")
	placeSurrogate(g, name+".grad.")
	return f.Store, g.Store
}

// rowMajor undoes the release's order: its entry k is column k/rows, row k%rows.
func rowMajor(x []float64, rows, cols int) []float64 {
	out := make([]float64, len(x))
	n := len(x) / (rows * cols)
	for k := range rows * cols {
		copy(out[(k%rows*cols+k/rows)*n:], x[k*n:(k+1)*n])
	}
	return out
}

func TestSurrogate_EqualsTheAuthorsModule(t *testing.T) { fixtures.Each(t, testSurrogate) }

func testSurrogate(t *testing.T) {
	var meta finetuneMeta
	fixtures.JSON(t, finetuneSet, "meta.json", &meta)
	data := fixtures.Tensors(t, finetuneSet, "tensors.safetensors")
	for name, c := range meta.Cases {
		number := func(of string) float64 { return c[of].(float64) }
		rows, cols := int(number("h")), int(number("w"))
		upstream := data[fmt.Sprintf("upstream.%dx%d", rows, cols)]
		store, wants := finetuneStores(t, meta, name)
		var paths []string
		got := run(t, store, func(scope *model.Scope, in []*Node) []*Node {
			g := in[0].Graph()
			e := surrogateOf(scope, rows, cols, meta.Width, meta.surrogate())
			f := e.field(g)
			z := f.coordinates(e.centres())
			p, pPrime := f.values(z)
			encodings := e.Encode(g)
			var byVariable []*Node
			paths, byVariable = gradients(scope, ReduceAllSum(Mul(encodings, in[0])))
			return append([]*Node{pair(z), pair(p), pair(pPrime), e.Features(g), encodings}, byVariable...)
		}, tensors.FromFlatDataAndDimensions(fixtures.Tensor{Data: rowMajor(upstream.Data, rows, cols)}.Float32(),
			rows*cols, meta.Width))
		for i, of := range []string{"z", "p", "pp", "features", "encodings"} {
			tol := []float64{5e-6, 5e-6, 5e-6, 5e-6, 2e-5}[i]
			gomlxtest.Near(t, name+" "+of, got[i], rowMajor(data[name+"."+of].Data, rows, cols), tol)
		}
		for v := range wants.IterVariables() {
			gradient := got[5+slices.Index(paths, v.Path())]
			if v.Name() == "modulation" {
				gradient = meta.modulation(gradient)
			}
			gomlxtest.Near(t, name+" d/d "+v.Path(), gradient, gomlxtest.Values(t, v.MustValue()), 1e-4)
		}

		e := surrogateOf(store.RootScope(), rows, cols, meta.Width, meta.surrogate())
		scalars := gomlxtest.Must(e.Scalars())(t)
		gomlxtest.Near(t, name+" scalars",
			[]float64{scalars["omega3"], scalars["beta"], scalars["gamma"], scalars["scale"], scalars["strength"]},
			[]float64{number("omega3_prime"), number("beta"), number("gamma"), number("scale_factor"), 1}, 1e-6)
	}
}

func TestHybrid_EqualsTheAuthorsMix(t *testing.T) { fixtures.Each(t, testReleasedMix) }

func testReleasedMix(t *testing.T) {
	var meta finetuneMeta
	fixtures.JSON(t, finetuneSet, "meta.json", &meta)
	data := fixtures.Tensors(t, finetuneSet, "tensors.safetensors")
	content, learned := data["mix.content_tokens"], data["mix.position_embeddings"]
	n, width := meta.Mix.Grid, meta.Width
	batch, prefix := content.Shape[0], content.Shape[1]-n*n
	// The release gives patch k the code of the patch mirrored at the diagonal. Mirroring the image and the learned table
	// gives both the same order, and the result is mirrored back.
	mirrored := func(tokens []float64) []float64 {
		head := prefix * width
		return slices.Concat(tokens[:head], rowMajor(tokens[head:], n, n))
	}
	var input, want []float64
	for b := range batch {
		at := b * (prefix + n*n) * width
		end := at + (prefix+n*n)*width
		input = append(input, mirrored(content.Data[at:end])...)
		tokens := slices.Clone(data["mix.encoder_input"].Data[at:end])
		for i := prefix * width; i < len(tokens); i++ { // the release adds this to the patches a second time
			tokens[i] -= learned.Data[i]
		}
		want = append(want, mirrored(tokens)...)
	}
	found := false
	for name := range meta.Cases { // README: the scalars of the last case
		store, _ := finetuneStores(t, meta, name)
		rows := tensors.FromFlatDataAndDimensions(fixtures.Tensor{Data: mirrored(learned.Data)}.Float32(), prefix+n*n, width)
		pretrained := gomlxtest.Must(store.CreateVariable("/pretrained", rows))(t)
		gomlxtest.Must(store.CreateVariable("/gate_raw", tensors.FromScalar(float32(meta.Mix.Gate))))(t)
		var h *hybrid
		got := run(t, store, func(scope *model.Scope, in []*Node) []*Node {
			e := surrogateOf(scope, n, n, width, meta.surrogate())
			h = New(scope, n, n, width).WithPrefix(prefix).Hybrid(pretrained, e).(*hybrid)
			return []*Node{h.PreEncode(in[0], nil, 1), e.Encode(in[0].Graph())}
		}, tensors.FromFlatDataAndDimensions(fixtures.Tensor{Data: input}.Float32(), batch, prefix+n*n, width))
		if floats.Distance(got[1], rowMajor(data["mix.wepe"].Data, n, n), math.Inf(1)) > 1e-3 {
			continue // the scalars of another case
		}
		found = true
		gomlxtest.Near(t, name+" mix", got[0], want, 1e-5)
		scalars := gomlxtest.Must(h.Scalars())(t)
		lambda := 1 / (1 + math.Exp(-meta.Mix.Gate))
		is.Near(t, "lambda", scalars["lambda"], lambda, 1e-6*lambda)
	}
	if !found {
		t.Error("no case of the fixture has the scalars that mix.wepe was made with")
	}
}
