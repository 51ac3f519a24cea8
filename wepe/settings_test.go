// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/setting"
)

// kv are hyperparameters by name.
type kv = map[string]any

// Parts of a configuration that are no hyperparameters, for with.
const byEvaluation, byCompression, byOmega1 = "evaluation", "compression", "ω1"

var byTable = kv{byEvaluation: evaluateTable}

// with sets parts of a configuration, and hyperparameters, without changing its scope.
func (c *Config) with(params ...kv) *Config {
	store := model.NewStore()
	for _, some := range params {
		store.SetParams(some)
		for name, value := range some {
			switch name {
			case byEvaluation:
				c.evaluation = value.(evaluation)
			case byCompression:
				c.compression = value.(compression)
			case byOmega1:
				c.omega1 = value.(float64)
			}
		}
	}
	setting.Read(store.RootScope(), c.settings())
	return c
}

func (c *Config) encoder() *encoder                   { return c.Build().(*encoder) }
func (c *Config) surrogateEncoder() *surrogateEncoder { return c.Surrogate().(*surrogateEncoder) }

func ofHalfPeriods(omega1, omega3 float64) kv { return kv{byOmega1: omega1, ParamOmega3: omega3} }
func ofSpan(alphaU, alphaV float64) kv        { return kv{ParamAlphaU: alphaU, ParamAlphaV: alphaV} }

func TestConfig_EverySettingChangesIt(t *testing.T) {
	changed := kv{
		ParamMode: "release", ParamProjection: "mlp", ParamDropout: 0.2, ParamDerivative: false,
		ParamOmega3: 1.5, ParamOmega3Re: 0.3, ParamG2: 0.5, ParamG3: 0.1, ParamArea: 1.0, ParamLearnLattice: false,
		ParamHarmonics: 2, ParamOffsetU: 0.2, ParamOffsetV: -0.3, ParamScales: 3, ParamAlphaU: 0.3, ParamAlphaV: 0.2,
		ParamAlphaScale: 0.25, ParamLearnAlphaScale: false, ParamBetaPos: 1.0, ParamLearnBetaPos: false,
		ParamKappa: 60.0, ParamPoleValue: 2000.0, ParamSurrogate: "svhn", ParamSurrogateBeta: 0.3,
		ParamSurrogateGamma: 0.4, ParamGate: 0.5, ParamLearnGate: false, ParamStart: startFitted, ParamRows: 6,
		ParamCols: 10, ParamShift: 0.5,
	}
	is.Equal(t, "settings", slices.Sorted(maps.Keys(changed)), slices.Sorted(slices.Values(Params())))
	state := func(params kv) string {
		c := *New(nil, 3, 5, 8)
		c.with(params)
		return fmt.Sprintf("%+v", c)
	}
	seen := map[string]string{state(nil): "nothing"} // the state after a change, and what was changed
	for name, value := range changed {
		after := state(kv{name: value})
		if other, taken := seen[after]; taken {
			t.Errorf("%s = %v changes what %s changes", name, value, other)
		}
		seen[after] = name
	}
}

// built returns the encoder for some settings, or the reason for its refusal.
func built(store *model.Store, settings ...kv) (e *encoder, err error) {
	err = exceptions.TryCatch[error](func() { e = New(store.RootScope(), 3, 5, 2).with(settings...).encoder() })
	return e, err
}

// refused fails unless err refuses a hyperparameter.
func refused(t *testing.T, what string, err error, param string) {
	t.Helper()
	var refusal ConfigError
	if !errors.As(err, &refusal) || refusal.Param != param {
		t.Errorf("%s: error %v, want a refusal of %q", what, err, param)
	}
}

// The ends of the ranges are accepted, by the settings alone or with others.
func TestConfig_AcceptsTheEndsOfRanges(t *testing.T) {
	for _, ends := range [][2]kv{
		{ofHalfPeriods(1e-3, 1e-3), ofHalfPeriods(1e3, 1e3)}, {ofHalfPeriods(1e-3, 1e3), ofHalfPeriods(1e3, 1e-3)},
		{{ParamAlphaScale: 1e-6}, {ParamAlphaScale: 1e6}}, {{ParamBetaPos: -1e6}, {ParamBetaPos: 1e6}},
		{{ParamMode: release, ParamOmega3: 0.02}, {ParamMode: release, ParamOmega3: 8.0}},
		{{ParamMode: release, ParamAlphaScale: 0.002}, {ParamMode: release, ParamAlphaScale: 0.8}},
		{ofSpan(1e-4, 1e-4), ofSpan(100, 100)}, {{ParamOffsetU: -1.0, ParamOffsetV: 1.0}, {ParamShift: 1.0}},
		{{ParamScales: 8, ParamHarmonics: 8}, {ParamRows: 16384, ParamCols: 64}},
		{{ParamDropout: 0.999}, {ParamKappa: 0.1}}, {{byEvaluation: evaluateSum, ParamKappa: 1e8}, {}},
	} {
		for _, settings := range ends {
			is.Equal(t, fmt.Sprint(settings), is.ErrorOf(built(model.NewStore(), settings)), nil)
		}
	}
}

func TestConfig_RefusesByName(t *testing.T) {
	sum, sphere := kv{byEvaluation: evaluateSum}, kv{byCompression: compressSphere}
	for _, c := range []struct {
		param    string
		settings kv
		with     kv
	}{
		{ParamMode, kv{ParamMode: "papr"}, nil}, {ParamDropout, kv{ParamDropout: 1.0}, nil},
		{ParamOmega3, kv{ParamOmega3: math.NaN()}, nil},
		{ParamOmega3, kv{ParamMode: release, ParamOmega3: 8.01}, nil},
		{ParamOmega3, kv{ParamMode: release, ParamOmega3: 0.0199}, nil},
		{ParamArea, kv{ParamArea: 1e6, ParamOmega3: 900.0}, nil}, {ParamG2, kv{ParamG2: 1e30}, nil},
		{ParamG3, kv{ParamG3: 1}, kv{byEvaluation: evaluateTable}}, {ParamRows, kv{ParamRows: 16384, ParamCols: 16384}, nil},
		{ParamG3, kv{ParamG2: 3, ParamG3: 1}, nil}, // no lattice has them
		{ParamArea, kv{ParamMode: release, ParamArea: 1}, nil}, {ParamHarmonics, kv{ParamHarmonics: 9}, nil},
		{ParamScales, kv{ParamScales: 0}, nil}, {ParamAlphaV, ofSpan(0.4, math.Inf(1)), nil},
		{ParamOffsetU, kv{ParamOffsetU: 1.01}, nil}, {ParamRows, kv{ParamRows: 16385}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 1e6 + 1}, nil}, {ParamAlphaScale, kv{ParamAlphaScale: 9e-7}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 0.81, ParamMode: release}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 0.0019, ParamMode: release}, nil},
		{ParamBetaPos, kv{ParamBetaPos: math.Inf(1)}, nil}, {ParamKappa, kv{ParamKappa: 0.09}, sum},
		{ParamOmega3Re, kv{ParamMode: release, ParamOmega3Re: 0.1}, nil},
		{ParamOmega3Re, kv{ParamOmega3Re: 0.3}, sum}, {ParamOmega3Re, kv{ParamOmega3Re: 0.3}, byTable},
		{ParamScales, kv{ParamScales: 2}, byTable}, {ParamHarmonics, kv{ParamHarmonics: 2}, byTable},
		{ParamOffsetU, kv{ParamOffsetU: 0.1}, byTable}, {ParamOffsetV, kv{ParamOffsetV: 0.1}, byTable},
		{ParamShift, kv{ParamShift: 0.5}, sum}, {ParamShift, kv{ParamShift: 1.0}, byTable},
		{ParamMode, kv{ParamMode: release}, sphere}, {ParamMode, sphere, sum},
	} {
		refused(t, fmt.Sprint(c), is.ErrorOf(built(model.NewStore(), c.settings, c.with)), c.param)
	}
}

func TestConfig_RefusesWhatDoesNotFitTogether(t *testing.T) {
	type build = func(c *Config, v *model.Variable)
	odd, even, placed := grid{3, 5, 0, 7}, grid{3, 5, 0, 6}, grid{3, 5, 1, 6} // width, and a prefix
	encoder, surrogate := func(c *Config, _ *model.Variable) { c.encoder() },
		func(c *Config, _ *model.Variable) { c.Surrogate() }
	hybrid := func(before int) build {
		return func(c *Config, v *model.Variable) {
			patches := c.Surrogate()
			c.WithPrefix(before).Hybrid(v, patches)
		}
	}
	for name, c := range map[string]struct {
		param  string
		grid   grid
		params kv
		build  build
	}{
		"odd width of an MLP":       {ParamProjection, odd, kv{ParamProjection: mlp}, encoder},
		"no rows":                   {"", grid{0, 5, 0, 7}, nil, encoder},
		"no columns":                {"", grid{3, 0, 0, 7}, nil, encoder},
		"no width":                  {"", grid{3, 5, 0, 0}, nil, encoder},
		"negative prefix":           {"", grid{3, 5, -1, 7}, nil, encoder},
		"no heads":                  {"", odd, nil, func(c *Config, _ *model.Variable) { c.Bias(0) }},
		"bias by a table":           {"", odd, nil, func(c *Config, _ *model.Variable) { c.WithTable().Bias(2) }},
		"bias on the sphere":        {"", odd, nil, func(c *Config, _ *model.Variable) { c.OnSphere().Bias(2) }},
		"field by a table":          {"", odd, nil, func(c *Config, _ *model.Variable) { c.WithTable().Field() }},
		"surrogate of an odd width": {"", odd, nil, surrogate},
		"surrogate with a prefix":   {"", placed, nil, surrogate},
		"β at its bound":            {ParamSurrogateBeta, even, kv{ParamSurrogateBeta: 0.01}, surrogate},
		"unknown surrogate":         {ParamSurrogate, even, kv{ParamSurrogate: "imagenet"}, surrogate},
		"gate NaN": {ParamGate, even, kv{ParamGate: math.NaN()}, func(c *Config, v *model.Variable) {
			hybridOf(c, v, encodings["surrogate"](c.scope))
		}},
		"a fit of ℘": {ParamStart, even, kv{ParamStart: startFitted}, func(c *Config, v *model.Variable) {
			hybridOf(c, v, encodings["scratch"](c.scope))
		}},
		"gate over prefix rows":      {"", placed, nil, func(c *Config, v *model.Variable) { c.Hybrid(v, c.encoder()) }},
		"more patches than rows":     {"", grid{7, 3, 0, 6}, nil, hybrid(prefix)},
		"fewer patches than rows":    {"", grid{5, 2, 0, 6}, nil, hybrid(prefix)},
		"no prefix, and prefix rows": {"", even, nil, hybrid(0)},
		"another width":              {"", grid{3, 5, 0, 8}, nil, hybrid(prefix)},
	} {
		store, v, _ := pretrained(t) // of 3×5 patches behind 2 prefix tokens, width 6
		config := New(store.RootScope(), c.grid.rows, c.grid.cols, c.grid.width).WithPrefix(c.grid.prefix).with(c.params)
		refused(t, name, exceptions.TryCatch[error](func() { c.build(config, v) }), c.param)
	}
	New(model.NewStore().RootScope(), 1, 1, 1).encoder() // of the smallest sizes
}

// Each form has its own variables, so that a model of one does not open as the other. A form sets defaults, which the
// scope overrides.
func TestConfig_Forms(t *testing.T) {
	for _, saved := range []compression{compressTanh, compressSphere} {
		for _, opened := range []compression{compressTanh, compressSphere} {
			store := model.NewStore()
			gomlxtest.Must(built(store, kv{byCompression: saved}))(t)
			if _, err := built(store, kv{byCompression: opened}); opened == saved && err != nil {
				t.Errorf("%s: %v", saved, err)
			} else if opened != saved {
				refused(t, "another form", err, "")
			}
		}
	}
	// The lattice of positive discriminant g2³ - 27g3² is rectangular, whatever wepe_omega3_re.
	rectangular := New(nil, 3, 5, 7).with(kv{ParamG2: 1.0, ParamG3: 0.1, ParamOmega3Re: 0.5})
	rectangular.setHalfPeriods()
	is.Equal(t, "Re ω3", rectangular.omega3Re, 0)
	store := model.NewStore()
	store.SetParams(kv{ParamAlphaV: 0.25})
	for i, c := range []struct {
		config *Config
		want   [4]float64 // α_scale, of which 0.15 and 1 are of the paper and of docs/sphere.md, spans and harmonics
	}{
		{New(nil, 3, 5, 8), [4]float64{0.15, 0.4, 0.4, 1}}, {New(nil, 3, 5, 8).WithTable(), [4]float64{0.15, 0.4, 0.4, 1}},
		{New(nil, 3, 5, 8).OnSphere(), [4]float64{1, 1, 1, 1}}, {New(nil, 3, 5, 8).OnHalfCell(), [4]float64{1, 0.5, 0.5, 2}},
		{New(nil, 3, 5, 8).with(kv{ParamAlphaScale: 0.15}).OnSphere(), [4]float64{0.15, 1, 1, 1}},
		{New(store.RootScope(), 3, 5, 8).OnHalfCell().FromScope(), [4]float64{1, 0.5, 0.25, 2}},
		{New(store.RootScope(), 3, 5, 8).FromScope().OnHalfCell(), [4]float64{1, 0.5, 0.25, 2}},
		{New(store.RootScope(), 3, 5, 8).FromScope().OnSphere(), [4]float64{1, 1, 0.25, 1}},
	} {
		got := c.config.resolve()
		of := [4]float64{got.alphaScale, got.alphaU, got.alphaV, float64(got.harmonics)}
		is.Equal(t, fmt.Sprint("case ", i), of, c.want)
	}
}

type reporter interface {
	Scalars() (map[string]float64, error)
}

func TestScalars_NamesTheVariableWithoutAValue(t *testing.T) {
	for missing, build := range map[string]func(*Config, *model.Variable) reporter{
		"/wepe/beta_pos":        func(c *Config, _ *model.Variable) reporter { return c.encoder() },
		"/wepe_bias/omega3_raw": func(c *Config, _ *model.Variable) reporter { return c.Bias(2) },
		"/surrogate/gamma_raw":  func(c *Config, _ *model.Variable) reporter { return c.Surrogate() },
		"/wepe/omega3_raw":      func(c *Config, v *model.Variable) reporter { return hybridOf(c, v, c.encoder()) },
		"/gate_raw":             func(c *Config, v *model.Variable) reporter { return hybridOf(c, v, c.Surrogate()) },
	} {
		store, v, _ := pretrained(t)
		of := build(New(store.RootScope(), rows, cols, hybridWidth), v)
		for _, spoil := range []func() error{store.GetVariable(missing).Reset,
			func() error { return store.DeleteVariable(missing) }} {
			gomlxtest.NoError(t, spoil())
			if _, err := of.Scalars(); err == nil || !strings.Contains(err.Error(), path.Base(missing)) {
				t.Errorf("%s: error %v, want one that names it", missing, err)
			}
		}
	}
}

func TestScalars_AreTheSettings(t *testing.T) {
	type scalars = map[string]float64
	encoder := func(c *Config, _ *model.Variable) reporter { return c.encoder() }
	surrogate := func(c *Config, _ *model.Variable) reporter { return c.Surrogate() }
	hybrid := func(c *Config, v *model.Variable) reporter { return hybridOf(c, v, c.encoder()) }
	const square = 2.6220575542921196
	paper := scalars{"omega3": square, "alpha_scale": 0.15, "beta_pos": 0.8}
	with := func(s scalars, name string, value float64) scalars {
		s = maps.Clone(s)
		s[name] = value
		return s
	}
	field := 0.1 + math.Log1p(math.Exp(0.5)) // ω3′ of the CIFAR-100 script
	fixed := []string{"a", "b", "gamma_raw", "modulation", "strength"}
	for _, c := range []struct {
		name   string
		build  func(*Config, *model.Variable) reporter
		params kv
		want   scalars
		frozen []string
	}{
		{"paper", encoder, nil, paper, nil},
		{"release", encoder, kv{ParamMode: "release"}, with(paper, "omega3", 0.7549461), nil},
		{"ablations", encoder, kv{ParamLearnLattice: false, ParamLearnAlphaScale: false, ParamLearnBetaPos: false,
			ParamBetaPos: 1.0, ParamOmega3: 1.5, ParamAlphaScale: 0.3},
			scalars{"omega3": 1.5, "alpha_scale": 0.3, "beta_pos": 1}, []string{"alpha_scale_raw", "beta_pos", "omega3_raw"}},
		{"leaning", encoder, kv{ParamOmega3Re: 0.25}, with(paper, "omega3_re", 0.25), []string{"omega3_re"}},
		{"bias", func(c *Config, _ *model.Variable) reporter { return c.Bias(2) },
			kv{ParamAlphaScale: 0.3, ParamOmega3: 0.8, ParamOmega3Re: 0.2},
			scalars{"omega3": 0.8, "alpha_scale": 0.3, "omega3_re": 0.2}, []string{"omega3_re"}},
		{"surrogate", surrogate, kv{ParamSurrogateBeta: 0.7, ParamSurrogateGamma: 0.3},
			scalars{"omega3": field, "beta": 0.7, "gamma": 0.3, "strength": 1, "scale": 0.05}, fixed},
		{"study", surrogate, kv{ParamSurrogate: surrogateSweep, ParamSurrogateBeta: 0.01, ParamSurrogateGamma: 0.5},
			scalars{"omega3": field, "beta": 0.01, "gamma": 0.5, "strength": 1, "scale": 0.05},
			[]string{"a", "b", "beta_raw", "gamma_raw", "modulation", "strength"}},
		{"gate", hybrid, nil, with(paper, "lambda", 0.12), nil},
		{"hybrid", hybrid, kv{ParamGate: 0.3, ParamLearnGate: false}, with(paper, "lambda", 0.3), []string{"gate_raw"}},
		{"shut", hybrid, kv{ParamGate: 0}, with(paper, "lambda", 0), nil},
		{"shut after training", func(c *Config, v *model.Variable) reporter {
			must.M1(c.scope.Store().CreateVariable("/gate_raw", tensors.FromScalar(float32(0.7))))
			return hybrid(c, v)
		}, kv{ParamGate: 0, ParamLearnGate: false}, with(paper, "lambda", 0), []string{"gate_raw"}},
		{"open", hybrid, kv{ParamGate: 1}, with(paper, "lambda", 1), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, v, _ := pretrained(t)
			store.SetParams(c.params)
			config := New(store.RootScope(), rows, cols, hybridWidth).FromScope()
			got := gomlxtest.Must(c.build(config, v).Scalars())(t)
			is.Equal(t, "scalars", len(got), len(c.want))
			for name, want := range c.want {
				is.Near(t, name, got[name], want, 1e-6*want)
			}
			var frozen []string
			for v := range store.IterVariables() {
				if !v.Trainable {
					frozen = append(frozen, v.Path()[strings.LastIndex(v.Path(), "/")+1:])
				}
			}
			slices.Sort(frozen)
			is.Equal(t, "fixed", frozen, c.frozen)
		})
	}
}
