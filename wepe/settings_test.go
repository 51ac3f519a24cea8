// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

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

func ofHalfPeriods(omega1, omega3 float64) kv { return kv{byOmega1: omega1, ParamOmega3: omega3} }
func ofSpan(alphaU, alphaV float64) kv        { return kv{ParamAlphaU: alphaU, ParamAlphaV: alphaV} }

func TestEvery_setting_reaches_its_encoder_and_no_other_changes(t *testing.T) {
	changed := kv{
		ParamMode: "release", ParamProjection: "mlp", ParamDropout: 0.2, ParamDerivative: false,
		ParamOmega3: 1.5, ParamOmega3Re: 0.3, ParamG2: 0.5, ParamG3: 0.1, ParamArea: 1.0, ParamLearnLattice: false,
		ParamHarmonics: 2, ParamOffsetU: 0.2, ParamOffsetV: -0.3, ParamScales: 3, ParamAlphaU: 0.3, ParamAlphaV: 0.2,
		ParamAlphaScale:      0.25,
		ParamLearnAlphaScale: false, ParamBetaPos: 1.0, ParamLearnBetaPos: false,
		ParamKappa: 60.0, ParamCLarge: 2000.0, ParamSurrogate: "svhn",
		ParamSurrogateBeta: 0.3, ParamSurrogateGamma: 0.4, ParamGate: 0.5, ParamLearnGate: false,
		ParamStart: startFitted, ParamRows: 6, ParamCols: 10, ParamShift: 0.5,
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
func built(store *model.Store, settings ...kv) (e *Encoder, err error) {
	err = exceptions.TryCatch[error](func() { e = New(store.RootScope(), 3, 5, 2).with(settings...).Done() })
	return e, err
}

// refused fails unless err refuses a hyperparameter.
func refused(t *testing.T, what string, err error, param string) {
	t.Helper()
	var refusal Refused
	if !errors.As(err, &refusal) || refusal.Param != param {
		t.Errorf("%s: error %v, want a refusal of %q", what, err, param)
	}
}

// failed fails unless err says what it is about.
func failed(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want one with %q", what, err, want)
	}
}

func TestThe_bounds_of_half_periods_and_sums_are_allowed(t *testing.T) {
	for _, omega1 := range []float64{minOmega3, maxOmega3} {
		for _, omega3 := range []float64{minOmega3, maxOmega3} {
			if _, err := built(model.NewStore(), ofHalfPeriods(omega1, omega3)); err != nil {
				t.Errorf("ω1 = %g, ω3′ = %g: %v", omega1, omega3, err)
			}
		}
	}
	for _, least := range []kv{{ParamKappa: 1e-3}, {ParamMode: release, ParamOmega3: 0.02},
		{ParamMode: release, ParamOmega3: 8.0}} {
		if _, err := built(model.NewStore(), kv{byEvaluation: evaluateSum}, least); err != nil {
			t.Errorf("%v: %v", least, err)
		}
	}
}

func TestEach_number_may_be_anything_in_its_range(t *testing.T) {
	const huge = math.MaxFloat32
	ranges := map[string][2]float64{
		ParamDropout: {0, 0.999}, ParamOmega3: {0, 1e3}, ParamOmega3Re: {-1e3, 1e3},
		ParamG2: {-huge, huge}, ParamG3: {-huge, huge}, ParamArea: {0, 1e6}, ParamHarmonics: {1, 8}, ParamScales: {1, 8},
		ParamAlphaU: {1e-4, 100}, ParamAlphaV: {1e-4, 100}, ParamOffsetU: {-1, 1},
		ParamOffsetV: {-1, 1}, ParamShift: {0, 1}, ParamRows: {0, 16384}, ParamCols: {0, 16384},
		ParamAlphaScale: {0, 1e6}, ParamBetaPos: {-1e6, 1e6}, ParamKappa: {1e-3, 1e8}, ParamCLarge: {-huge, huge},
		ParamSurrogateBeta: {0, 1e3}, ParamSurrogateGamma: {0, 1e3}, ParamGate: {0, 1},
	}
	integers := []string{ParamHarmonics, ParamScales, ParamRows, ParamCols}
	for name, ends := range ranges {
		checked := func(value float64) error {
			var of any = value
			if slices.Contains(integers, name) {
				of = int(value)
			}
			return setting.Check(New(nil, 3, 5, 8).with(kv{name: of}).settings())
		}
		for _, end := range ends {
			if err := checked(end); err != nil {
				t.Errorf("%s = %g: %v", name, end, err)
			}
		}
		below, above := math.Nextafter(ends[0], -math.MaxFloat64), math.Nextafter(ends[1], math.MaxFloat64)
		if slices.Contains(integers, name) {
			below, above = ends[0]-1, ends[1]+1
		}
		if checked(below) == nil || checked(above) == nil {
			t.Errorf("%s: %g and %g are not both refused", name, below, above)
		}
	}
}

func TestConfig_SmallestSizes(t *testing.T) {
	for sizes, ok := range map[[4]int]bool{{1, 1, 1, 0}: true, {0, 1, 1, 0}: false, {1, 0, 1, 0}: false,
		{1, 1, 0, 0}: false, {1, 1, 1, -1}: false} {
		err := exceptions.TryCatch[error](func() {
			New(model.NewStore().RootScope(), sizes[0], sizes[1], sizes[2]).WithPrefix(sizes[3]).Done()
		})
		if (err == nil) != ok {
			t.Errorf("rows, columns, width, prefix %v: %v", sizes, err)
		}
	}
}

func TestConfig_RefusesByName(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		param    string
		settings kv
		with     kv
	}{
		{ParamMode, kv{ParamMode: "papr"}, nil},
		{ParamOmega3, kv{ParamOmega3: nan}, nil},
		{ParamOmega3, kv{ParamMode: release, ParamOmega3: 8.01}, nil},
		{ParamOmega3, kv{ParamMode: release, ParamOmega3: 0.0199}, nil},
		{ParamOmega3, kv{ParamArea: 1e6, ParamOmega3: 900.0}, nil},
		{ParamG3, kv{ParamG2: 3, ParamG3: 1}, nil}, // no lattice has them
		{ParamArea, kv{ParamMode: release, ParamArea: 1}, nil},
		{ParamAlphaV, ofSpan(0.4, math.Inf(1)), nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 1e6 + 1}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 9e-7}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 0.81, ParamMode: release}, nil},
		{ParamAlphaScale, kv{ParamAlphaScale: 0.0019, ParamMode: release}, nil},
		{ParamOmega3Re, kv{ParamMode: release, ParamOmega3Re: 0.1}, nil},
		{ParamOmega3Re, kv{ParamOmega3Re: 0.3}, kv{byEvaluation: evaluateSum}},
		{ParamOmega3Re, kv{ParamOmega3Re: 0.3}, byTable},
		{ParamScales, kv{ParamScales: 2}, byTable},
		{ParamHarmonics, kv{ParamHarmonics: 2}, byTable},
		{ParamOffsetU, kv{ParamOffsetU: 0.1}, byTable},
		{ParamOffsetV, kv{ParamOffsetV: 0.1}, byTable},
		{ParamShift, kv{ParamShift: 0.5}, kv{byEvaluation: evaluateSum}},
		{ParamShift, kv{ParamShift: 1.0}, byTable},
		{ParamMode, kv{ParamMode: release}, kv{byCompression: compressSphere}},
		{ParamMode, nil, kv{byCompression: compressSphere, byEvaluation: evaluateSum}},
	} {
		_, err := built(model.NewStore(), c.settings, c.with)
		refused(t, fmt.Sprint(c), err, c.param)
	}
	for _, bound := range []kv{{ParamAlphaScale: 1e6}, {ParamAlphaScale: 1e-6},
		{ParamAlphaScale: 0.002, ParamMode: release}, {ParamAlphaScale: 0.8, ParamMode: release}} {
		if _, err := built(model.NewStore(), bound); err != nil {
			t.Errorf("%v: %v", bound, err)
		}
	}
}

func TestConfig_RefusesWhatDoesNotFitTogether(t *testing.T) {
	for name, c := range map[string]struct {
		param string
		build func(s *model.Scope, v *model.Variable)
	}{
		"odd width of an MLP": {ParamProjection, func(s *model.Scope, _ *model.Variable) {
			New(s, 3, 5, 7).with(kv{ParamProjection: mlp}).Done()
		}},
		"no columns":         {"", func(s *model.Scope, _ *model.Variable) { New(s, 3, 0, 7).Done() }},
		"negative prefix":    {"", func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).WithPrefix(-1).Done() }},
		"no heads":           {"", func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).Bias(0) }},
		"bias by a table":    {"", func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).WithTable().Bias(2) }},
		"bias on the sphere": {"", func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).OnSphere().Bias(2) }},
		"field by a table":   {"", func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).WithTable().Field() }},
		"surrogate of an odd width": {"", func(s *model.Scope, _ *model.Variable) {
			New(s, 3, 5, 7).Surrogate()
		}},
		"surrogate with a prefix": {"", func(s *model.Scope, _ *model.Variable) {
			New(s, 3, 5, 6).WithPrefix(1).Surrogate()
		}},
		"β at its bound": {ParamSurrogateBeta, func(s *model.Scope, _ *model.Variable) {
			New(s, 3, 5, 6).with(kv{ParamSurrogateBeta: 0.01}).Surrogate()
		}},
		"unknown surrogate": {ParamSurrogate, func(s *model.Scope, _ *model.Variable) {
			New(s, 3, 5, 6).with(kv{ParamSurrogate: "imagenet"}).Surrogate()
		}},
		"gate NaN": {ParamGate, func(s *model.Scope, v *model.Variable) {
			New(s, rows, cols, hybridWidth).with(kv{ParamGate: math.NaN()}).Hybrid(v, encodings["surrogate"](s))
		}},
		"gate over prefix rows": {"", func(s *model.Scope, v *model.Variable) {
			c := New(s, rows, cols, hybridWidth).WithPrefix(1)
			c.Hybrid(v, c.Done())
		}},
		"more patches than rows": {"", func(s *model.Scope, v *model.Variable) {
			c := New(s, 7, 3, hybridWidth)
			hybridOf(c, v, c.Surrogate())
		}},
		"fewer patches than rows": {"", func(s *model.Scope, v *model.Variable) {
			c := New(s, 5, 2, hybridWidth)
			hybridOf(c, v, c.Surrogate())
		}},
		"no prefix, and prefix rows": {"", func(s *model.Scope, v *model.Variable) {
			c := New(s, rows, cols, hybridWidth)
			c.Hybrid(v, c.Surrogate())
		}},
		"another width": {"", func(s *model.Scope, v *model.Variable) {
			c := New(s, rows, cols, 8)
			hybridOf(c, v, c.Surrogate())
		}},
	} {
		store, v, _ := pretrained(t)
		refused(t, name, exceptions.TryCatch[error](func() { c.build(store.RootScope(), v) }), c.param)
	}
}

// The lattice of positive discriminant g2³ - 27g3² is rectangular, whatever wepe_omega3_re.
func TestInvariantsDetermineTheRealPartOfOmega3(t *testing.T) {
	c := New(nil, 3, 5, 7).with(kv{ParamG2: 1.0, ParamG3: 0.1, ParamOmega3Re: 0.5})
	if c.setHalfPeriods(); c.omega3Re != 0 {
		t.Errorf("Re ω3 = %g, want 0", c.omega3Re)
	}
}
