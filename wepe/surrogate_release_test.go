// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

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
	Cases map[string]finetuneCase
}

type finetuneCase struct {
	Rows       int       `json:"h"`
	Cols       int       `json:"w"`
	Omega3Raw  float64   `json:"alpha_learn"`
	BetaRaw    float64   `json:"beta_learn"`
	GammaRaw   float64   `json:"gamma_learn"`
	Scale      float64   `json:"scale_factor"`
	Modulation []float64 `json:"freq_modulation"`
	Omega3     float64   `json:"omega3_prime"`
	Beta       float64
	Gamma      float64
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
	f.Set("omega3_raw", []float64{c.Omega3Raw})
	f.Set("beta_raw", []float64{c.BetaRaw})
	f.Set("gamma_raw", []float64{c.GammaRaw})
	f.Set("scale", []float64{c.Scale})
	f.Set("modulation", meta.modulation(c.Modulation), len(c.Modulation))
	placeSurrogate(f, "param.")
	for path, of := range map[string]string{
		"omega3_raw": "alpha_learn", "beta_raw": "beta_learn", "gamma_raw": "gamma_learn", "scale": "scale_factor",
		"modulation": "freq_modulation",
	} {
		g.Vector(path, name+".grad."+of)
	}
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

func TestSurrogate_is_the_authors_module_in_values_and_gradients(t *testing.T) {
	fixtures.Each(t, testSurrogate)
}

func testSurrogate(t *testing.T) {
	var meta finetuneMeta
	fixtures.JSON(t, finetuneSet, "meta.json", &meta)
	data := fixtures.Tensors(t, finetuneSet, "tensors.safetensors")
	for name, c := range meta.Cases {
		upstream := data[fmt.Sprintf("upstream.%dx%d", c.Rows, c.Cols)]
		store, gradients := finetuneStores(t, meta, name)
		var paths []string
		got := run(t, store, func(scope *model.Scope, in []*Node) []*Node {
			g := in[0].Graph()
			e := surrogateOf(scope, c.Rows, c.Cols, meta.Width, meta.surrogate())
			pair := func(z ComplexNode) *Node { return Stack([]*Node{z.Re, z.Im}, -1) }
			f := e.field(g)
			z := f.coordinates(e.centres())
			p, pPrime := f.values(z)
			encodings := e.Encode(g)
			out := []*Node{pair(z), pair(p), pair(pPrime), e.Features(g), encodings}
			var values []*Node
			for v := range scope.IterVariables() {
				paths, values = append(paths, strings.TrimPrefix(v.Path(), "/surrogate/")), append(values, v.NodeValue(g))
			}
			return append(out, Gradient(ReduceAllSum(Mul(encodings, in[0])), values...)...)
		}, tensors.FromFlatDataAndDimensions(fixtures.Tensor{Data: rowMajor(upstream.Data, c.Rows, c.Cols)}.Float32(),
			c.Rows*c.Cols, meta.Width))
		for i, of := range []string{"z", "p", "pp", "features", "encodings"} {
			tol := 5e-6
			if of == "encodings" {
				tol = 2e-5
			}
			gomlxtest.Near(t, name+" "+of, got[i], rowMajor(data[name+"."+of].Data, c.Rows, c.Cols), tol)
		}
		for v := range gradients.IterVariables() {
			path := strings.TrimPrefix(v.Path(), "/surrogate/")
			gradient := got[5+slices.Index(paths, path)]
			if path == "modulation" {
				gradient = meta.modulation(gradient)
			}
			gomlxtest.Near(t, name+" d/d "+path, gradient, gomlxtest.Values(t, v.MustValue()), 1e-4)
		}

		e := surrogateOf(store.RootScope(), c.Rows, c.Cols, meta.Width, meta.surrogate())
		scalars := gomlxtest.Must(e.Scalars())(t)
		gomlxtest.Near(t, name+" scalars",
			[]float64{scalars["omega3"], scalars["beta"], scalars["gamma"], scalars["scale"], scalars["strength"]},
			[]float64{c.Omega3, c.Beta, c.Gamma, c.Scale, 1}, 1e-6)
	}
}

func TestHybrid_is_the_authors_mix_without_its_second_addition(t *testing.T) {
	fixtures.Each(t, testReleasedMix)
}

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
		if worst := distance(got[1], rowMajor(data["mix.wepe"].Data, n, n)); worst > 1e-3 {
			continue // the scalars of another case
		}
		found = true
		gomlxtest.Near(t, name+" mix", got[0], want, 1e-5)
		scalars := gomlxtest.Must(h.Scalars())(t)
		gomlxtest.Near(t, "lambda", []float64{scalars["lambda"]}, []float64{1 / (1 + math.Exp(-meta.Mix.Gate))}, 1e-6)
	}
	if !found {
		t.Error("no case of the fixture has the scalars that mix.wepe was made with")
	}
}

// official-release: the parameters of the module of SVHN, counted in torch.
func TestSurrogate_ParametersAreTheReleases(t *testing.T) {
	store, got := model.NewStore(), 0
	store.SetParam("/"+ParamSurrogate, surrogateSVHN)
	New(store.RootScope(), 3, 5, 1024).FromScope().Surrogate()
	for v := range store.IterVariables() {
		if v.Trainable {
			got += v.Shape().Size()
		}
	}
	if got != 1_582_602 {
		t.Errorf("%d trainable parameters, want 1,582,602", got)
	}
}
