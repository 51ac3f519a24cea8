// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/cmplx"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// The authors' module, run by its own code: fixture official_wepe_pretrain. Tolerances are its README's.
const releaseSet = "official_wepe_pretrain"

type releaseMeta struct {
	Width           int                              `json:"d_model"`
	Omega1          float64                          `json:"omega1"`
	PoleRadius      float64                          `json:"kappa_eps"`
	PoleValue       float64                          `json:"c_large"`
	TermClip        float64                          `json:"term_clip"`
	FinalClip       float64                          `json:"final_clip"`
	Cut             int                              `json:"search"`
	CoordinateScale float64                          `json:"coordinate_scale"`
	G3Case          struct{ G2, G3, Omega1 float64 } `json:"g3_case"`
	Cases           map[string]releaseCase
}

// releaseCase are sizes and scalars by their names in the authors' module.
type releaseCase map[string]float64

func (m releaseMeta) sum() elliptic.Sum {
	return elliptic.Sum{Cut: m.Cut, Kappa: m.PoleRadius * 1e8, CLarge: m.PoleValue, TermClip: m.TermClip,
		FinalClip: m.FinalClip}
}

// omega1 returns ω1 of a case.
func (m releaseMeta) omega1(name string) float64 {
	if strings.HasPrefix(name, "g3_") {
		return m.G3Case.Omega1
	}
	return m.Omega1
}

// roundings bounds the float32 errors of the gradients of alpha_learn and log_alpha_scale. They are sums, which can
// cancel, of ∂loss/∂f·∂f/∂x·∂x over patches and their features f = tanh(α_scale·x), x the parts of ℘ and ℘′: 16
// roundings of each term, 2 of the f² in ∂f/∂x = α_scale·(1-f²), and 2 of z, which change f by ∂f/∂x·∂x/∂z. ℘″ is 6℘² -
// g2/2.
func (c releaseCase) roundings(data map[string]fixtures.Tensor, name string, byF []float64, g2 float64) (learn,
	scale float64) {
	wp, wpp, zs, f := data[name+".wp"].Data, data[name+".wpp"].Data, data[name+".z"].Data, data[name+".features"]
	features := f.Shape[1]
	for i := range f.Shape[0] {
		z, p, prime := complex(zs[2*i], zs[2*i+1]), complex(wp[2*i], wp[2*i+1]), complex(wpp[2*i], wpp[2*i+1])
		second := 6*p*p - complex(g2/2, 0)
		x := []float64{real(p), imag(p), real(prime), imag(prime)}
		byZ := []float64{-imag(prime), real(prime), -imag(second), real(second)} // of its imaginary part
		byLearn := imag(z) / c["omega3_prime"] / (1 + math.Exp(-c["alpha_learn"]))
		for k := range features {
			f := math.Abs(f.Data[i*features+k])
			moved := 4 * f * c["alpha_scale"] * cmplx.Abs(z) * cmplx.Abs([]complex128{prime, second}[k/2])
			unit := 0x1p-24 * ((1-f*f)*(16+moved) + 2*f*f) * c["alpha_scale"] * math.Abs(byF[i*features+k])
			learn += unit * math.Abs(byZ[k]*byLearn)
			scale += unit * math.Abs(x[k])
		}
	}
	return learn, scale
}

// place copies the tensors of the authors' module below a prefix to our paths: its parameters, or gradients.
func place(f *gomlxtest.Torch, prefix string, mlp bool) {
	class := f.Get(prefix + "cls_pos_embedding") // [1, 1, width]
	f.Set("prefix", class.Data, class.Shape[1:]...)
	layer := func(path string, dense, norm int) {
		f.Layer(path+"/dense", fmt.Sprintf("%sprojection.%d", prefix, dense))
		f.Norm(path+"/layer_normalization", fmt.Sprintf("%sprojection.%d", prefix, norm))
	}
	if mlp {
		layer("projection/hidden", 0, 1)
		layer("projection/output", 4, 5)
	} else {
		layer("projection", 0, 1)
	}
}

// releaseStore returns a store with the parameters of a case, the settings of its module, and a store of the expected
// gradients.
func releaseStore(t *testing.T, meta releaseMeta, name string) (store *model.Store,
	config func(*model.Scope) *Config, gradients *model.Store) {
	t.Helper()
	kind, _, _ := strings.Cut(name, "_") // "lin", "mlp", …
	c, params := meta.Cases[name], strings.Replace(kind, "lin", "linear", 1)+".param."
	f, g := gomlxtest.LoadTorch(t, releaseSet, "tensors.safetensors", "/wepe/"),
		gomlxtest.LoadTorch(t, releaseSet, "tensors.safetensors", "/wepe/")
	_, mlp := f.Tensors[params+"projection.5.weight"]
	place(f, params, mlp)
	place(g, name+".grad.", mlp)
	f.Set("omega3_raw", []float64{c["alpha_learn"]})
	f.Set("alpha_scale_raw", []float64{c["log_alpha_scale"]})
	f.Set("beta_pos", []float64{c["pos_scale"]})
	return f.Store, func(s *model.Scope) *Config {
		config := New(s, int(c["h"]), int(c["w"]), meta.Width).WithPrefix(1).
			with(kv{ParamMode: release, byOmega1: meta.Omega1,
				ParamDerivative: f.Get(params + "projection.0.weight").Shape[1] == 4},
				ofSpan(meta.CoordinateScale, meta.CoordinateScale))
		config.sum = meta.sum()
		if mlp {
			config.with(kv{ParamProjection: "mlp"})
		}
		if strings.HasPrefix(name, "g3_") {
			config.with(kv{ParamG2: meta.G3Case.G2, ParamG3: meta.G3Case.G3})
		}
		return config
	}, g.Store
}

func TestRelease_EqualsTheAuthorsModule(t *testing.T) { fixtures.Each(t, testRelease) }

func testRelease(t *testing.T) {
	var meta releaseMeta
	fixtures.JSON(t, releaseSet, "meta.json", &meta)
	data := fixtures.Tensors(t, releaseSet, "tensors.safetensors")
	sum := meta.sum()
	is.Near(t, "κ", elliptic.ReleasedSum.Kappa, sum.Kappa, 1e-9)
	sum.Kappa = elliptic.ReleasedSum.Kappa
	is.Equal(t, "the sum", elliptic.ReleasedSum, sum)
	for name, c := range meta.Cases {
		t.Run(name, func(t *testing.T) {
			store, config, wants := releaseStore(t, meta, name)
			upstream := data[fmt.Sprintf("upstream.%gx%g", c["h"], c["w"])]
			outputs := make(map[string]int)
			var e *encoder
			results := run(t, store, func(s *model.Scope, in []*Node) (nodes []*Node) {
				e = config(s).encoder()
				r, g := in[0], in[0].Graph()
				u, v := e.config.patches(e.config.grid)
				at := e.viewed(g, u, v)
				p, pPrime := e.values(at)
				encodings := e.Encode(g)
				loss := ReduceAllSum(Mul(encodings, r))
				output := func(name string, node *Node) {
					outputs[name] = len(nodes)
					nodes = append(nodes, node)
				}
				output("z", pair(at.z))
				output("wp", pair(p))
				output("wpp", pair(pPrime))
				output("features", e.Features(g))
				output("encodings", encodings)
				if strings.HasPrefix(name, "lin_clamped_") { // README: tokens.out was made with its scalars
					output("tokens", e.PreEncode(Const(g, gomlxtest.Input(data["tokens.x"])), nil, 1))
				}
				f := e.compressed(at.alphaScale, p, pPrime)
				rows := Concatenate([]*Node{e.prefix.NodeValue(g), e.projection.apply(f)}, 0)
				again := ReduceAllSum(Mul(Mul(e.betaPos.NodeValue(g), rows), r))
				output("d/df", Gradient(again, f)[0]) // [patch, feature]
				paths, byVariable := gradients(s, loss)
				for i, gradient := range byVariable {
					output(paths[i], gradient)
				}
				return nodes
			}, tensors.FromFlatDataAndDimensions(upstream.Float32(), upstream.Shape[1:]...))
			got := func(name string) []float64 { return results[outputs[name]] }

			for _, of := range []string{"z", "features", "encodings"} {
				gomlxtest.Near(t, of, got(of), data[name+"."+of].Data, 5e-6)
			}
			for _, of := range []string{"wp", "wpp"} {
				nearNormwise(t, of, got(of), data[name+"."+of].Data, 2e-6)
			}
			if at, ok := outputs["tokens"]; ok {
				gomlxtest.Near(t, "tokens", results[at], data["tokens.out"].Data, 5e-6)
			}
			learn, scale := c.roundings(data, name, got("d/df"), math.Pow(meta.Omega1/meta.omega1(name), 4))
			gomlxtest.NearAbs(t, "d/d alpha_learn", got("/wepe/omega3_raw"), data[name+".grad.alpha_learn"].Data, learn)
			gomlxtest.NearAbs(t, "d/d log_alpha_scale", got("/wepe/alpha_scale_raw"),
				data[name+".grad.log_alpha_scale"].Data, scale)
			total := 0.0 // of the terms, which can cancel in their sum
			for i, row := range got("encodings") {
				total += math.Abs(row / c["pos_scale"] * upstream.Data[i])
			}
			gomlxtest.NearAbs(t, "d/d pos_scale", got("/wepe/beta_pos"), data[name+".grad.pos_scale"].Data, 16*0x1p-24*total)
			is.Equal(t, "variables, and three scalars", store.NumVariables(), wants.NumVariables()+3)
			for v := range wants.IterVariables() {
				gomlxtest.Near(t, "d/d "+v.Path(), got(v.Path()), gomlxtest.Values(t, v.MustValue()), 2e-5)
			}

			scalars := gomlxtest.Must(e.Scalars())(t)
			gomlxtest.Near(t, "scalars", []float64{scalars["omega3"], scalars["alpha_scale"], scalars["beta_pos"]},
				[]float64{c["omega3_prime"], c["alpha_scale"], c["pos_scale"]}, 1e-6)
		})
	}
}

// nearNormwise is nearComplex with the mean |want| as the floor.
func nearNormwise(t *testing.T, name string, got, want []float64, tol float64) {
	t.Helper()
	var mean float64
	for i := 0; i < len(want); i += 2 {
		mean += math.Hypot(want[i], want[i+1]) / float64(len(want)/2)
	}
	nearComplex(t, name, got, want, tol, mean)
}

// nearComplex compares complex values given as pairs: |got - want| <= tol·(|want| + floor), because ℘ has zeros.
func nearComplex(t *testing.T, name string, got, want []float64, tol, floor float64) {
	t.Helper()
	is.Equal(t, name+": values", len(got), len(want))
	for i := 0; i < len(want); i += 2 {
		g, w := complex(got[i], got[i+1]), complex(want[i], want[i+1])
		if diff := cmplx.Abs(g - w); !(diff <= tol*(cmplx.Abs(w)+floor)) {
			t.Errorf("%s: at %d got %g, want %g: off by %.3g of %.3g + %.3g", name, i/2, g, w, diff, cmplx.Abs(w), floor)
		}
	}
}

func TestSum_EqualsTheAuthors(t *testing.T) { fixtures.Each(t, testLatticeSum) }

func testLatticeSum(t *testing.T) {
	if !float64Runs(t) {
		t.Skip("the backend has no float64")
	}
	var meta releaseMeta
	fixtures.JSON(t, releaseSet, "meta.json", &meta)
	data := fixtures.Tensors(t, releaseSet, "tensors.safetensors")
	sum := meta.sum()
	for name := range meta.Cases {
		omega1 := meta.omega1(name)
		p, pPrime := values64(t, data[name+".z"].Data, omega1, sum.P)
		nearNormwise(t, name+".wp", p, data[name+".wp"].Data, 1e-12)
		nearNormwise(t, name+".wpp", pPrime, data[name+".wpp"].Data, 1e-12)

		// The exact function differs only by the truncation error of the sum, mathematics.md (5.9).
		exact, _ := values64(t, data[name+".z"].Data, omega1, P)
		var gap, want float64
		for i := 0; i < len(exact); i += 2 {
			z, summed := data[name+".z"].Data, data[name+".wp"].Data
			gap = max(gap, math.Hypot(exact[i]-summed[i], exact[i+1]-summed[i+1]))
			z2 := z[i]*z[i] + z[i+1]*z[i+1]
			want = max(want, z2/(16*math.Pow(omega1, 4)*math.Pow(float64(sum.Cut)+0.5, 2)))
		}
		is.Near(t, name+": difference of exact and summed ℘", gap, want, 0.1*want)
	}

	// Poles, clips and arguments far outside the block.
	p, pPrime := values64(t, data["probe.z"].Data, meta.Omega1, sum.P)
	nearComplex(t, "probe.wp", p, data["probe.wp"].Data, 1e-9, 1)
	nearComplex(t, "probe.wpp", pPrime, data["probe.wpp"].Data, 1e-9, 1)
}

func pair(z ComplexNode) *Node { return Stack([]*Node{z.Re, z.Im}, -1) }

// values64 runs f in float64 on the square lattice at points given as pairs and returns ℘ and ℘′ as pairs.
func values64(t *testing.T, z []float64, omega1 float64,
	f func(z ComplexNode, omega1, omega3p *Node) (p, pPrime ComplexNode)) (p, pPrime []float64) {
	t.Helper()
	x, y := make([]float64, len(z)/2), make([]float64, len(z)/2)
	for i := range x {
		x[i], y[i] = z[2*i], z[2*i+1]
	}
	out := gomlxtest.Run(t, func(in []*Node) []*Node {
		omega := Scalar(in[0].Graph(), dtypes.Float64, omega1)
		p, pPrime := f(ComplexNode{Re: in[0], Im: in[1]}, omega, omega)
		return []*Node{pair(p), pair(pPrime)}
	}, x, y)
	return out[0], out[1]
}
