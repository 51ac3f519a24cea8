// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/setting"
)

// kv are hyperparameters by name.
type kv = map[string]any

func read(rows []setting.Row, params []kv) {
	store := model.NewStore()
	for _, some := range params {
		store.SetParams(some)
	}
	setting.Read(store.RootScope(), rows)
}

// Parts of a configuration that are no hyperparameters, for with.
const byEvaluation, byCompression, byOmega1 = "evaluation", "compression", "ω1"

var byTable = kv{byEvaluation: evaluateTable}

// with sets parts of a configuration, and hyperparameters, without changing its scope.
func (c *Config) with(params ...kv) *Config {
	read(c.settings(), params)
	for _, some := range params {
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
	return c
}

func (c *Config) encoder() *encoder                   { return c.Build().(*encoder) }
func (c *Config) surrogateEncoder() *surrogateEncoder { return c.Surrogate().(*surrogateEncoder) }

func ofHalfPeriods(omega1, omega3 float64) kv { return kv{byOmega1: omega1, ParamOmega3: omega3} }
func ofSpan(alphaU, alphaV float64) kv        { return kv{ParamAlphaU: alphaU, ParamAlphaV: alphaV} }

func TestEvery_setting_reaches_its_encoder_and_no_other_changes(t *testing.T) {
	changed := kv{
		ParamMode: "release", ParamProjection: "mlp", ParamDropout: 0.2, ParamDerivative: false,
		ParamOmega3: 1.5, ParamOmega3Re: 0.3, ParamG2: 0.5, ParamG3: 0.1, ParamArea: 1.0, ParamLearnLattice: false,
		ParamHarmonics: 2, ParamOffsetU: 0.2, ParamOffsetV: -0.3, ParamScales: 3, ParamAlphaU: 0.3, ParamAlphaV: 0.2,
		ParamAlphaScale: 0.25, ParamLearnAlphaScale: false, ParamBetaPos: 1.0, ParamLearnBetaPos: false,
		ParamKappa: 60.0, ParamPoleValue: 2000.0, ParamSurrogate: "svhn", ParamSurrogateBeta: 0.3,
		ParamSurrogateGamma: 0.4, ParamGate: 0.5, ParamLearnGate: false, ParamStart: startFitted, ParamRows: 6,
		ParamCols: 10, ParamShift: 0.5,
	}
	if names := Params(); len(names) != len(changed) {
		t.Errorf("%d settings, want the %d of this test", len(names), len(changed))
	}
	state := func(params kv) string {
		c := *New(nil, 3, 5, 8)
		c.with(params)
		return fmt.Sprintf("%+v", c)
	}
	seen := map[string]string{state(nil): "nothing"} // the state after a change, and what was changed
	for name, value := range changed {
		after := state(kv{name: value})
		if other, taken := seen[after]; taken || !slices.Contains(Params(), name) {
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
		{{ParamScales: 8, ParamHarmonics: 8}, {ParamRows: 16384, ParamCols: 16384}}, {{ParamDropout: 0.999},
			{ParamKappa: 1e-3}},
	} {
		for _, settings := range ends {
			if _, err := built(model.NewStore(), settings); err != nil {
				t.Errorf("%v: %v", settings, err)
			}
		}
	}
	if _, err := built(model.NewStore(), kv{byEvaluation: evaluateSum, ParamKappa: 1e8}); err != nil {
		t.Error(err)
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
		{ParamOmega3, kv{ParamArea: 1e6, ParamOmega3: 900.0}, nil},
		{ParamG3, kv{ParamG2: 3, ParamG3: 1}, nil}, // no lattice has them
		{ParamArea, kv{ParamMode: release, ParamArea: 1}, nil}, {ParamHarmonics, kv{ParamHarmonics: 9}, nil},
		{ParamScales, kv{ParamScales: 0}, nil}, {ParamAlphaV, ofSpan(0.4, math.Inf(1)), nil},
		{ParamOffsetU, kv{ParamOffsetU: 1.01}, nil}, {ParamRows, kv{ParamRows: 16385}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 1e6 + 1}, nil}, {ParamAlphaScale, kv{ParamAlphaScale: 9e-7}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 0.81, ParamMode: release}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 0.0019, ParamMode: release}, nil},
		{ParamBetaPos, kv{ParamBetaPos: math.Inf(1)}, nil}, {ParamKappa, kv{ParamKappa: 0}, sum},
		{ParamOmega3Re, kv{ParamMode: release, ParamOmega3Re: 0.1}, nil},
		{ParamOmega3Re, kv{ParamOmega3Re: 0.3}, sum}, {ParamOmega3Re, kv{ParamOmega3Re: 0.3}, byTable},
		{ParamScales, kv{ParamScales: 2}, byTable}, {ParamHarmonics, kv{ParamHarmonics: 2}, byTable},
		{ParamOffsetU, kv{ParamOffsetU: 0.1}, byTable}, {ParamOffsetV, kv{ParamOffsetV: 0.1}, byTable},
		{ParamShift, kv{ParamShift: 0.5}, sum}, {ParamShift, kv{ParamShift: 1.0}, byTable},
		{ParamMode, kv{ParamMode: release}, sphere}, {ParamMode, sphere, sum},
	} {
		_, err := built(model.NewStore(), c.settings, c.with)
		refused(t, fmt.Sprint(c), err, c.param)
	}
}

func TestConfig_RefusesWhatDoesNotFitTogether(t *testing.T) {
	of := func(width int) func(s *model.Scope) *Config {
		return func(s *model.Scope) *Config { return New(s, rows, cols, width) }
	}
	hybrid := func(rows, cols, width, before int, params kv) func(*model.Scope, *model.Variable) {
		return func(s *model.Scope, v *model.Variable) {
			c := New(s, rows, cols, width).with(params)
			patches := c.Surrogate()
			c.WithPrefix(before).Hybrid(v, patches)
		}
	}
	type build = func(s *model.Scope, v *model.Variable)
	for name, c := range map[string]struct {
		param string
		build build
	}{
		"odd width of an MLP": {ParamProjection, func(s *model.Scope, _ *model.Variable) {
			of(7)(s).with(kv{ParamProjection: mlp}).encoder()
		}},
		"no rows":                   {"", func(s *model.Scope, _ *model.Variable) { New(s, 0, 5, 7).encoder() }},
		"no columns":                {"", func(s *model.Scope, _ *model.Variable) { New(s, 3, 0, 7).encoder() }},
		"no width":                  {"", func(s *model.Scope, _ *model.Variable) { of(0)(s).encoder() }},
		"negative prefix":           {"", func(s *model.Scope, _ *model.Variable) { of(7)(s).WithPrefix(-1).encoder() }},
		"no heads":                  {"", func(s *model.Scope, _ *model.Variable) { of(7)(s).Bias(0) }},
		"bias by a table":           {"", func(s *model.Scope, _ *model.Variable) { of(7)(s).WithTable().Bias(2) }},
		"bias on the sphere":        {"", func(s *model.Scope, _ *model.Variable) { of(7)(s).OnSphere().Bias(2) }},
		"field by a table":          {"", func(s *model.Scope, _ *model.Variable) { of(7)(s).WithTable().Field() }},
		"surrogate of an odd width": {"", func(s *model.Scope, _ *model.Variable) { of(7)(s).Surrogate() }},
		"surrogate with a prefix":   {"", func(s *model.Scope, _ *model.Variable) { of(6)(s).WithPrefix(1).Surrogate() }},
		"β at its bound": {ParamSurrogateBeta, func(s *model.Scope, _ *model.Variable) {
			of(6)(s).with(kv{ParamSurrogateBeta: 0.01}).Surrogate()
		}},
		"unknown surrogate": {ParamSurrogate, func(s *model.Scope, _ *model.Variable) {
			of(6)(s).with(kv{ParamSurrogate: "imagenet"}).Surrogate()
		}},
		"gate NaN": {ParamGate, func(s *model.Scope, v *model.Variable) {
			of(hybridWidth)(s).with(kv{ParamGate: math.NaN()}).Hybrid(v, encodings["surrogate"](s))
		}},
		"gate over prefix rows": {"", func(s *model.Scope, v *model.Variable) {
			c := of(hybridWidth)(s).WithPrefix(1)
			c.Hybrid(v, c.encoder())
		}},
		"a fit of ℘": {ParamStart, func(s *model.Scope, v *model.Variable) {
			hybridOf(of(hybridWidth)(s).with(kv{ParamStart: startFitted}), v, encodings["scratch"](s))
		}},
		"more patches than rows":     {"", hybrid(7, 3, hybridWidth, prefix, nil)},
		"fewer patches than rows":    {"", hybrid(5, 2, hybridWidth, prefix, nil)},
		"no prefix, and prefix rows": {"", hybrid(rows, cols, hybridWidth, 0, nil)},
		"another width":              {"", hybrid(rows, cols, 8, prefix, nil)},
	} {
		store, v, _ := pretrained(t)
		refused(t, name, exceptions.TryCatch[error](func() { c.build(store.RootScope(), v) }), c.param)
	}
	if New(model.NewStore().RootScope(), 1, 1, 1).encoder() == nil {
		t.Error("no encoder of the smallest sizes")
	}
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
	if rectangular.setHalfPeriods(); rectangular.omega3Re != 0 {
		t.Errorf("Re ω3 = %g, want 0", rectangular.omega3Re)
	}
	store := model.NewStore()
	store.SetParams(kv{ParamAlphaV: 0.25})
	for i, c := range []struct {
		config     *Config
		alphaScale float64 // 0.15 and 1 are of the paper and of docs/sphere.md
		spans      [2]float64
		harmonics  int
	}{
		{New(nil, 3, 5, 8), 0.15, [2]float64{0.4, 0.4}, 1}, {New(nil, 3, 5, 8).WithTable(), 0.15, [2]float64{0.4, 0.4}, 1},
		{New(nil, 3, 5, 8).OnSphere(), 1, [2]float64{1, 1}, 1}, {New(nil, 3, 5, 8).OnHalfCell(), 1, [2]float64{0.5, 0.5}, 2},
		{New(nil, 3, 5, 8).with(kv{ParamAlphaScale: 0.15}).OnSphere(), 0.15, [2]float64{1, 1}, 1},
		{New(store.RootScope(), 3, 5, 8).OnHalfCell().FromScope(), 1, [2]float64{0.5, 0.25}, 2},
		{New(store.RootScope(), 3, 5, 8).FromScope().OnHalfCell(), 1, [2]float64{0.5, 0.25}, 2},
		{New(store.RootScope(), 3, 5, 8).FromScope().OnSphere(), 1, [2]float64{1, 0.25}, 1},
	} {
		got := c.config.resolve()
		if spans := [2]float64{got.alphaU, got.alphaV}; got.alphaScale != c.alphaScale || spans != c.spans ||
			got.harmonics != c.harmonics {
			t.Errorf("case %d: α_scale %g, spans %v, %d harmonics, want %+v", i, got.alphaScale, spans, got.harmonics, c)
		}
	}
}
