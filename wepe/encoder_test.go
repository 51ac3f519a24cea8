// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// float64Runs says whether the test backend evaluates P in float64.
func float64Runs(t *testing.T) bool {
	t.Helper()
	err := exceptions.TryCatch[error](func() {
		exec := MustNewExec(gomlxtest.Backend(), derivativesOf)
		exec.MustCall(0.3, 0.7, 2.0, 3.0)
	})
	return err == nil
}

var run = gomlxtest.RunModel

// hostFeatures are tanh(α_scale·f) by the host's float64 functions, written out from mathematics.md (6.1) to (6.3).
func hostFeatures(t *testing.T, rows, cols int, alphaU, alphaV, omega1, omega3p, alphaScale float64) []float64 {
	t.Helper()
	lattice, err := weierstrass.NewLattice(omega1, omega3p)
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	for row := range rows {
		for col := range cols {
			u, v := (float64(col)+0.5)/float64(cols), (float64(row)+0.5)/float64(rows)
			p, pPrime := lattice.Eval(complex(alphaU*u*2*omega1, alphaV*v*2*omega3p))
			for _, f := range []float64{real(p), imag(p), real(pPrime), imag(pPrime)} {
				out = append(out, math.Tanh(alphaScale*f))
			}
		}
	}
	return out
}

func TestPaper_features_are_the_hosts_on_unequal_grids_and_spans(t *testing.T) {
	for _, c := range []struct {
		rows, cols                     int
		alphaU, alphaV, omega1, omega3 float64
	}{
		{3, 5, 0.4, 0.4, weierstrass.OmegaSquare, 0},
		{7, 2, 0.4, 0.3, weierstrass.OmegaSquare, 1.085},
		{2, 11, 0.3, 0.4, 1.3, 4.7},
		{5, 3, 0.9, 0.8, 2.6, 0.7}, // spans of more than half a period, over the poles of other cells
	} {
		got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			e := New(s, c.rows, c.cols, 8).with(ofHalfPeriods(c.omega1, c.omega3), ofSpan(c.alphaU, c.alphaV)).Done()
			return []*Node{e.Features(in[0].Graph())}
		}, float32(0))
		omega3 := c.omega3
		if omega3 == 0 {
			omega3 = c.omega1
		}
		want := hostFeatures(t, c.rows, c.cols, c.alphaU, c.alphaV, c.omega1, omega3, DefaultAlphaScale)
		gomlxtest.Near(t, fmt.Sprintf("%+v", c), got[0], want, 5e-6)
	}
}

func TestPaper_gradient_of_omega3_is_the_finite_difference_of_a_moving_lattice(t *testing.T) {
	dtype, tol := dtypes.Float64, 1e-8
	if !float64Runs(t) {
		dtype, tol = dtypes.Float32, 1e-4
	}
	const rows, cols = 5, 3
	for _, start := range []float64{weierstrass.OmegaSquare, 0.9, 1.085, 3.7} { // either side of the tie of axes
		cosines := make([]float64, rows*cols*4)
		for i := range cosines {
			cosines[i] = math.Cos(float64(i))
		}
		got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			c := New(s, rows, cols, 2).with(ofHalfPeriods(weierstrass.OmegaSquare, start))
			c.dtype = dtype
			e, g := c.Done(), in[0].Graph()
			weight := Reshape(ConstAsDType(g, dtype, cosines), rows*cols, 4)
			return Gradient(ReduceAllSum(Mul(weight, e.Features(g))), e.omega3.NodeValue(g))
		}, float32(0))
		at := func(omega3 float64) (loss float64) {
			for i, f := range hostFeatures(t, rows, cols, DefaultSpan, DefaultSpan, weierstrass.OmegaSquare, omega3,
				DefaultAlphaScale) {
				loss += cosines[i] * f
			}
			return loss
		}
		const h = 1e-3 // fourth-order central difference
		slope := (8*(at(start+h)-at(start-h)) - (at(start+2*h) - at(start-2*h))) / (12 * h)
		slope *= 1 - math.Exp(-start) // dω3′/draw = 1/(1+e^-raw) = 1 - e^-ω3′, mathematics.md (6.4)
		gomlxtest.Near(t, fmt.Sprintf("d/d raw at ω3′ = %g", start), got[0], []float64{slope}, tol)
	}
}

func TestSum_in_paper_mode_approaches_the_exact_function_on_the_deformed_lattice(t *testing.T) {
	features := func(c func(*Config) *Config) []float64 {
		return run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			return []*Node{c(New(s, 5, 3, 2).with(ofHalfPeriods(2.6, 1.7))).Done().Features(in[0].Graph())}
		}, float32(0))[0]
	}
	exact := features(func(c *Config) *Config { return c })
	var errors []float64
	for _, cut := range []int{3, 6, 12} {
		sum := DefaultLatticeSum()
		sum.Cut = cut
		var worst float64
		for i, f := range features(func(c *Config) *Config {
			return c.
				with(kv{ParamEvaluation: EvaluateSum, ParamSumCut: sum.Cut})
		}) {
			worst = max(worst, math.Abs(f-exact[i]))
		}
		errors = append(errors, worst)
	}
	// Second order in Cut + ½, mathematics.md (5.9): factors of 3.4 and 3.7.
	for i := range 2 {
		if ratio := errors[i] / errors[i+1]; ratio < 3 || ratio > 4.2 {
			t.Errorf("errors %.3g at cuts 3, 6, 12: want a fall of second order", errors)
		}
	}
}

func TestInvariants_choose_the_lattice(t *testing.T) {
	// g2 = 1, g3 = 0: ω1 = ω3′ = Γ(1/4)²/(4√π), DLMF 23.5(iii).
	omega := math.Pow(math.Gamma(0.25), 2) / (4 * math.Sqrt(math.Pi))
	got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
		e := New(s, 3, 2, 2).with(kv{ParamG2: 1, ParamG3: 0}).Done()
		z := e.Coordinates(in[0].Graph())
		return []*Node{e.Features(in[0].Graph()), e.Omega3(in[0].Graph()), z.Re, z.Im}
	}, float32(0))
	want := hostFeatures(t, 3, 2, DefaultSpan, DefaultSpan, omega, omega, DefaultAlphaScale)
	gomlxtest.Near(t, "features", got[0], want, 5e-6)
	gomlxtest.Near(t, "ω3′", got[1], []float64{omega}, 1e-6)
	first, second := .2*omega, .6*omega
	gomlxtest.Near(t, "Re z", got[2], []float64{first, second, first, second, first, second}, 1e-6)
	third := .4 * omega / 3
	gomlxtest.Near(t, "Im z", got[3], []float64{third, third, 3 * third, 3 * third, 5 * third, 5 * third}, 1e-6)
}

func TestVariables_have_the_documented_paths_shapes_and_count(t *testing.T) {
	for _, c := range []struct {
		projection Projection
		prefix     int
		want       map[string][]int
	}{
		{Linear, 1, map[string][]int{
			"/vit/wepe/omega3_raw": {}, "/vit/wepe/alpha_scale_raw": {}, "/vit/wepe/beta_pos": {},
			"/vit/wepe/prefix":                   {1, 192},
			"/vit/wepe/projection/dense/weights": {4, 192}, "/vit/wepe/projection/dense/biases": {192},
			"/vit/wepe/projection/layer_normalization/gain":   {192},
			"/vit/wepe/projection/layer_normalization/offset": {192},
		}},
		{MLP, 0, map[string][]int{
			"/vit/wepe/omega3_raw": {}, "/vit/wepe/alpha_scale_raw": {}, "/vit/wepe/beta_pos": {},
			"/vit/wepe/projection/hidden/dense/weights": {4, 96}, "/vit/wepe/projection/hidden/dense/biases": {96},
			"/vit/wepe/projection/hidden/layer_normalization/gain":   {96},
			"/vit/wepe/projection/hidden/layer_normalization/offset": {96},
			"/vit/wepe/projection/output/dense/weights":              {96, 192},
			"/vit/wepe/projection/output/dense/biases":               {192},
			"/vit/wepe/projection/output/layer_normalization/gain":   {192},
			"/vit/wepe/projection/output/layer_normalization/offset": {192},
		}},
	} {
		store := model.NewStore()
		New(store.Scope("/vit"), 14, 14, 192).WithPrefix(c.prefix).with(kv{ParamProjection: c.projection}).Done()
		got := make(map[string][]int)
		for v := range store.IterVariables() {
			got[v.Path()] = append([]int{}, v.Shape().Dimensions...)
		}
		if !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: variables %v, want %v", c.projection, got, c.want)
		}
		if c.projection == Linear && store.NumParameters() != 8*192+3 { // 1,539: official-release.md §1.1, measured
			t.Errorf("%d parameters, want 8·192 + 3", store.NumParameters())
		}
	}
}

func TestParameter_count_is_that_of_the_authors_modules(t *testing.T) {
	var meta releaseMeta
	fixtures.JSON(t, releaseSet, "meta.json", &meta)
	data := fixtures.Tensors(t, releaseSet, "tensors.safetensors")
	for name := range meta.Cases {
		want := 3 // the scalars
		for tensor, x := range data {
			if strings.HasPrefix(tensor, parameters(name)) {
				want += len(x.Data)
			}
		}
		store := model.NewStore()
		_, config := releaseStore(t, data, meta, name)
		config(store.RootScope()).Done()
		if got := store.NumParameters(); got != want {
			t.Errorf("%s: %d parameters, want %d", name, got, want)
		}
	}
}

func TestInitial_scalars_are_the_settings_and_only_the_learned_ones_train(t *testing.T) {
	for _, c := range []struct {
		name   string
		params map[string]any
		want   map[string]float64
		frozen []string
	}{
		{"paper", map[string]any{},
			map[string]float64{"omega3": 2.6220575542921196, "alpha_scale": 0.15, "beta_pos": 0.8}, nil},
		{"release", map[string]any{ParamMode: "release"},
			map[string]float64{"omega3": 0.7549461, "alpha_scale": 0.15, "beta_pos": 0.8}, nil},
		{"ablations", map[string]any{ParamLearnLattice: false, ParamLearnAlphaScale: false,
			ParamLearnBetaPos: false, ParamBetaPos: 1.0, ParamOmega3: 1.5, ParamAlphaScale: 0.3},
			map[string]float64{"omega3": 1.5, "alpha_scale": 0.3, "beta_pos": 1},
			[]string{"/wepe/omega3_raw", "/wepe/alpha_scale_raw", "/wepe/beta_pos"}},
	} {
		store := model.NewStore()
		store.SetParams(c.params)
		e := New(store.RootScope(), 3, 5, 4).FromScope().Done()
		got, err := e.Scalars()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if math.Abs(got[name]-want) > 1e-6*want {
				t.Errorf("%s: %s = %g, want %g", c.name, name, got[name], want)
			}
		}
		var frozen []string
		for v := range store.IterVariables() {
			if !v.Trainable {
				frozen = append(frozen, v.Path())
			}
		}
		if !slices.Equal(frozen, c.frozen) {
			t.Errorf("%s: frozen %v, want %v", c.name, frozen, c.frozen)
		}
	}
}

// The release's deviations: dense layers 0.02, prefix rows 0.015, official-release.md 1.1. For n normal numbers Σx²/σ² is
// χ² of n degrees, n ± √(2n): five of those either side.
func TestInitial_weights_have_the_deviations_of_the_release(t *testing.T) {
	store := model.NewStore()
	scope := store.RootScope()
	New(scope.In("linear"), 3, 5, 192).WithPrefix(7).Done()
	New(scope.In("mlp"), 3, 5, 192).with(kv{ParamProjection: MLP}).Done()
	New(scope.In("bias"), 3, 5, 192).Bias(97)
	for path, deviation := range map[string]float64{
		"/linear/wepe/projection/dense/weights": 0.02, "/linear/wepe/prefix": 0.015,
		"/mlp/wepe/projection/hidden/dense/weights": 0.02, "/mlp/wepe/projection/output/dense/weights": 0.02,
		"/bias/wepe_bias/weights": 0.02,
	} {
		drawn := gomlxtest.Values(t, store.GetVariable(path).MustValue())
		n, chi2 := float64(len(drawn)), 0.0
		for _, x := range drawn {
			chi2 += x * x / (deviation * deviation)
		}
		if math.Abs(chi2-n) > 5*math.Sqrt(2*n) {
			t.Errorf("%s: deviation %.4g of %g numbers, want %g", path, deviation*math.Sqrt(chi2/n), n, deviation)
		}
	}
}

func TestSoftplus_and_its_inverse_agree_with_the_closed_form(t *testing.T) {
	raws := []float32{-80, -15, -1.82118, 0, 2.5466, 15, 80, 1000}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		y := softplus(in[0])
		return []*Node{y, Gradient(ReduceAllSum(y), in[0])[0]}
	}, raws)
	for i, raw := range raws {
		x := float64(raw)
		want, slope := math.Log1p(math.Exp(min(x, 700))), 1/(1+math.Exp(-x)) // mathematics.md (6.4)
		if x > 700 {
			want = x
		}
		// Absolute below 1: ONNX Runtime's Log1p is log(1+x).
		if math.Abs(got[0][i]-want) > 1.2e-7*max(1, want) || math.Abs(got[1][i]-slope) > 1.2e-7 {
			t.Errorf("softplus(%g) = %g with slope %g, want %g and %g", x, got[0][i], got[1][i], want, slope)
		}
	}
	// mathematics.md (6.6): the raw value of the square lattice, to its printed digits.
	if raw := softplusInverse(weierstrass.OmegaSquare); math.Abs(raw-2.5466) > 5e-5 {
		t.Errorf("softplus⁻¹(ω1) = %g, want 2.5466", raw)
	}
}

func TestWithout_derivative_the_features_are_the_first_two(t *testing.T) {
	got := run(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
		g := in[0].Graph()
		four, two := New(s.In("four"), 3, 5, 4).Done(), New(s.In("two"), 3, 5, 4).with(kv{ParamDerivative: false}).Done()
		return []*Node{four.Features(g), two.Features(g), two.projection.final.weights.NodeValue(g)}
	}, float32(0))
	for i, f := range got[1] {
		if want := got[0][i/2*4+i%2]; f != want {
			t.Errorf("feature %d of patch %d is %g, want %g", i%2, i/2, f, want)
		}
	}
	if len(got[1]) != 3*5*2 || len(got[2]) != 2*4 {
		t.Errorf("%d features and %d weights, want 30 and 8", len(got[1]), len(got[2]))
	}
}

func TestBad_settings_are_refused_by_name(t *testing.T) {
	nan := math.NaN()
	for want, params := range map[string]kv{
		ParamMode: {ParamMode: "papr"}, ParamProjection: {ParamProjection: "conv"}, ParamEvaluation: {ParamEvaluation: "fast"},
		ParamDropout: {ParamDropout: 1}, ParamOmega1: ofHalfPeriods(-1, 0), ParamOmega3: ofHalfPeriods(1, nan),
		"ω3′":     {ParamMode: Release, ParamOmega1: 1, ParamOmega3: 9},
		ParamG3:   {ParamG2: 3, ParamG3: 1}, // of no lattice
		ParamG2:   {ParamG2: nan},
		ParamArea: {ParamMode: Release, ParamArea: 1}, ParamKappa: {ParamKappa: 0}, ParamCLarge: {ParamCLarge: nan},
		ParamAlphaU: ofSpan(0, 0.4), ParamAlphaV: ofSpan(0.4, math.Inf(1)), ParamAlphaScale: {ParamAlphaScale: 0},
		ParamBetaPos: {ParamBetaPos: nan}, ParamSumCut: {ParamSumCut: 0}, ParamScales: ofScales(0, 2),
		ParamScaleRatio: ofScales(2, nan), ParamOmega3Re: ofOblique(nan, false),
		"oblique lattices":   {ParamMode: Release, ParamLearnOblique: true},
		`evaluation "sum"`:   {ParamEvaluation: EvaluateSum, ParamOmega3Re: 0.3},
		"one lattice":        {ParamScales: 2, ParamEvaluation: EvaluateTable},
		ParamTableError:      {ParamTableError: 0},
		ParamTable:           {ParamTable: "tanh"},
		ParamTableResolution: {ParamTableResolution: 1},
		"odd: 7":             {ParamProjection: MLP},
		"grid 3×0":           {"cols": 0},
		"width 7, prefix -1": {"prefix": -1},
	} {
		err := exceptions.TryCatch[error](func() {
			c := New(model.NewStore().RootScope(), 3, 5, 7).with(params)
			if cols, ok := params["cols"]; ok {
				c.cols = cols.(int)
			}
			if prefix, ok := params["prefix"]; ok {
				c.prefix = prefix.(int)
			}
			c.Done()
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a refusal that names it", want, err)
		}
	}
}
