// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
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

// with sets hyperparameters of a configuration without changing its scope.
func (c *Config) with(params ...kv) *Config { read(c.settings(), params); return c }

func ofHalfPeriods(omega1, omega3 float64) kv { return kv{paramOmega1: omega1, "wepe_omega3": omega3} }
func ofSpan(alphaU, alphaV float64) kv        { return kv{paramAlphaU: alphaU, "wepe_alpha_v": alphaV} }
func ofOblique(re float64, learn bool) kv     { return kv{paramOmega3Re: re, paramLearnOblique: learn} }

// ofTable is a table with a number of nodes, whatever its error.
func ofTable(kind tableKind, resolution int) kv {
	return kv{paramEvaluation: evaluateTable, paramTable: kind, "wepe_table_resolution": resolution, paramTableError: 2}
}

func TestEvery_setting_reaches_its_encoder_and_no_other_changes(t *testing.T) {
	changed := kv{
		"wepe_mode": "release", paramProjection: "mlp", "wepe_dropout": 0.2, paramDerivative: false, paramOmega1: 2.5,
		"wepe_omega3": 1.5, paramOmega3Re: 0.3, paramG2: 0.5, paramG3: 0.1, paramArea: 1.0, "wepe_learn_lattice": false,
		paramLearnOblique: true, paramHarmonics: 2, paramOffsetU: 0.2, paramOffsetV: -0.3, paramCompression: "sphere",
		paramScales: 3, "wepe_scale_ratio": 1.5, paramAlphaU: 0.3, "wepe_alpha_v": 0.2, paramAlphaScale: 0.25,
		"wepe_learn_alpha_scale": false, "wepe_beta_pos": 1.0, "wepe_learn_beta_pos": false, paramEvaluation: "sum",
		"wepe_sum_cut": 5, "wepe_kappa": 60.0, "wepe_c_large": 2000.0, "wepe_term_clip": 70.0, "wepe_final_clip": 90.0,
		paramTable: "raw", "wepe_table_resolution": 33, paramTableError: 0.5, "wepe_surrogate": "svhn",
		paramSurrogateBeta: 0.3, paramSurrogateGamma: 0.4, "wepe_gate": 0.5, "wepe_learn_gate": false,
		paramStart: startFitted, paramRows: 6, paramCols: 10, paramShift: 0.5,
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

func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want a refusal with %q", what, err, want)
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
	for _, least := range []kv{{"wepe_sum_cut": 1}, {"wepe_kappa": 1e-3}, {"wepe_term_clip": 1e-6},
		{"wepe_final_clip": 1e-6}, {"wepe_mode": release, "wepe_omega3": 0.02},
		{"wepe_mode": release, "wepe_omega3": 8.0}} {
		if _, err := built(model.NewStore(), kv{paramEvaluation: evaluateSum}, least); err != nil {
			t.Errorf("%v: %v", least, err)
		}
	}
}

func TestEach_number_may_be_anything_in_its_range(t *testing.T) {
	const huge = math.MaxFloat32
	ranges := map[string][2]float64{
		"wepe_dropout": {0, 0.999}, paramOmega1: {1e-3, 1e3}, "wepe_omega3": {0, 1e3}, paramOmega3Re: {-1e3, 1e3},
		paramG2: {-huge, huge}, paramG3: {-huge, huge}, paramArea: {0, 1e6}, paramHarmonics: {1, 8}, paramScales: {1, 8},
		"wepe_scale_ratio": {0.125, 8}, paramAlphaU: {1e-4, 100}, "wepe_alpha_v": {1e-4, 100}, paramOffsetU: {-1, 1},
		paramOffsetV: {-1, 1}, paramShift: {0, 1}, paramRows: {0, 16384}, paramCols: {0, 16384},
		paramAlphaScale: {0, 1e6}, "wepe_beta_pos": {-1e6, 1e6}, "wepe_sum_cut": {1, 1000},
		"wepe_kappa": {1e-3, 1e8}, "wepe_c_large": {-huge, huge},
		"wepe_term_clip": {1e-6, huge}, "wepe_final_clip": {1e-6, huge}, "wepe_table_resolution": {2, 4096},
		paramTableError: {0, 2}, paramSurrogateBeta: {0, 1e3}, paramSurrogateGamma: {0, 1e3}, "wepe_gate": {0, 1},
	}
	integers := []string{paramHarmonics, paramScales, paramRows, paramCols, "wepe_sum_cut", "wepe_table_resolution"}
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
		refused(t, "below", checked(below), name)
		refused(t, "above", checked(above), name)
	}
}

func TestThe_least_sizes_of_an_encoder_are_one_patch_and_width_1(t *testing.T) {
	for _, c := range []struct {
		rows, cols, width, prefix int
		want                      string
	}{
		{1, 1, 1, 0, ""}, {0, 1, 1, 0, "grid 0×1, width 1, prefix 0"}, {1, 0, 1, 0, "grid 1×0, width 1, prefix 0"},
		{1, 1, 0, 0, "grid 1×1, width 0, prefix 0"}, {1, 1, 1, -1, "grid 1×1, width 1, prefix -1"},
	} {
		err := exceptions.TryCatch[error](func() {
			New(model.NewStore().RootScope(), c.rows, c.cols, c.width).WithPrefix(c.prefix).Done()
		})
		if c.want == "" && err == nil {
			continue
		}
		refused(t, fmt.Sprint(c), err, c.want)
	}
}

func TestBad_settings_are_refused_by_name(t *testing.T) {
	nan := math.NaN()
	table := kv{paramEvaluation: evaluateTable}
	for _, c := range []struct {
		want     string
		settings []kv
	}{
		{"wepe_mode", []kv{{"wepe_mode": "papr"}}},
		{paramEvaluation, []kv{{paramEvaluation: "fast"}}},
		{"wepe_omega3", []kv{ofHalfPeriods(1, nan)}},
		{"ω3′", []kv{{"wepe_mode": release, paramOmega1: 1, "wepe_omega3": 8.01}}},
		{"ω3′", []kv{{"wepe_mode": release, paramOmega1: 1, "wepe_omega3": 0.0199}}},
		{"ω3′", []kv{{paramArea: 1e6, "wepe_omega3": 900.0}}},
		{paramG3, []kv{{paramG2: 3, paramG3: 1}}}, // no lattice has them
		{paramArea, []kv{{"wepe_mode": release, paramArea: 1}}},
		{"wepe_alpha_v", []kv{ofSpan(0.4, math.Inf(1))}},
		{paramAlphaScale, []kv{{paramAlphaScale: 1e6 + 1}}},
		{paramAlphaScale, []kv{{paramAlphaScale: 9e-7}}},
		{paramAlphaScale + " = 0.81, want 0.002 to 0.8", []kv{{paramAlphaScale: 0.81, "wepe_mode": release}}},
		{paramAlphaScale + " = 0.0019", []kv{{paramAlphaScale: 0.0019, "wepe_mode": release}}},
		{paramTableError, []kv{{paramTableError: 9e-10}}},
		{"oblique lattices", []kv{{"wepe_mode": release, paramLearnOblique: true}}},
		{`evaluation "sum"`, []kv{{paramEvaluation: evaluateSum, paramOmega3Re: 0.3}}},
		{"one lattice", []kv{{paramScales: 2}, table}},
		{"oblique", []kv{ofOblique(0.3, false), table}},
		{paramHarmonics + " with a table", []kv{{paramHarmonics: 2}, table}},
		{paramOffsetU + " with a table", []kv{{paramOffsetU: 0.1}, table}},
		{paramOffsetV + " with a table", []kv{{paramOffsetV: 0.1}, table}},
		{paramShift + ` = 0.5 with evaluation "sum"`, []kv{{paramShift: 0.5, paramEvaluation: evaluateSum}}},
		{paramShift + ` = 1 with evaluation "table"`, []kv{{paramShift: 1.0}, table}},
		{`"sphere" in mode "release"`, []kv{{paramCompression: "sphere", "wepe_mode": release}}},
		{`"sphere" in mode "paper" with evaluation "sum"`, []kv{{paramCompression: "sphere", paramEvaluation: evaluateSum}}},
		{paramTable, []kv{{paramCompression: "sphere", paramTable: rawTable}, table}},
	} {
		_, err := built(model.NewStore(), c.settings...)
		refused(t, fmt.Sprint(c.settings), err, c.want)
	}
	for want, build := range map[string]func(s *model.Scope, v *model.Variable){
		"odd: 7":             func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).WithMLP(0).Done() },
		"grid 3×0":           func(s *model.Scope, _ *model.Variable) { New(s, 3, 0, 7).Done() },
		"width 7, prefix -1": func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).WithPrefix(-1).Done() },
		"0 heads":            func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).Bias(0) },
		"a bias takes":       func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).WithTable(8, 1).Bias(2) },
		"a field is":         func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).WithTable(8, 1).Field() },
		"width 7, prefix 0":  func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 7).Surrogate() },
		"width 6, prefix 1":  func(s *model.Scope, _ *model.Variable) { New(s, 3, 5, 6).WithPrefix(1).Surrogate() },
		paramSurrogateBeta: func(s *model.Scope, _ *model.Variable) {
			New(s, 3, 5, 6).WithSurrogate("paper", 0.01, 0).Surrogate() // its bound
		},
		"wepe_surrogate" + ` = "imagenet"`: func(s *model.Scope, _ *model.Variable) {
			New(s, 3, 5, 6).WithSurrogate("imagenet", 0, 0).Surrogate()
		},
		"wepe_gate": func(s *model.Scope, v *model.Variable) {
			New(s, rows, cols, hybridWidth).WithGate(nan, true).Hybrid(v, encodings["surrogate"](s))
		},
		"has 1 prefix rows": func(s *model.Scope, v *model.Variable) {
			c := New(s, rows, cols, hybridWidth).WithPrefix(1)
			c.Hybrid(v, c.Done())
		},
		"[2 + 21, 6]": func(s *model.Scope, v *model.Variable) { // more patches than rows
			c := New(s, 7, 3, hybridWidth)
			hybridOf(c, v, c.Surrogate())
		},
		"[2 + 10, 6]": func(s *model.Scope, v *model.Variable) { // fewer
			c := New(s, 5, 2, hybridWidth)
			hybridOf(c, v, c.Surrogate())
		},
		"[0 + 15, 6]": func(s *model.Scope, v *model.Variable) { // a prefix that the configuration does not have
			c := New(s, rows, cols, hybridWidth)
			c.Hybrid(v, c.Surrogate())
		},
		"[2 + 15, 8]": func(s *model.Scope, v *model.Variable) {
			c := New(s, rows, cols, 8)
			hybridOf(c, v, c.Surrogate())
		},
	} {
		store, v, _ := pretrained(t)
		refused(t, want, exceptions.TryCatch[error](func() { build(store.RootScope(), v) }), want)
	}
	for _, bound := range []kv{{paramAlphaScale: 1e6}, {paramAlphaScale: 1e-6}, {paramTableError: 1e-9},
		{paramAlphaScale: 0.002, "wepe_mode": release}, {paramAlphaScale: 0.8, "wepe_mode": release}} {
		if _, err := built(model.NewStore(), bound); err != nil {
			t.Errorf("%v: %v", bound, err)
		}
	}
	for _, settings := range []kv{ofOblique(0.3, false), {paramHarmonics: 2}} {
		e, err := built(model.NewStore(), settings)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, "BuildTable", e.BuildTable(), "single rectangular lattice")
	}
}

// The lattice of positive discriminant g2³ - 27g3² is rectangular, whatever wepe_omega3_re.
func TestInvariantsDetermineTheRealPartOfOmega3(t *testing.T) {
	c := New(nil, 3, 5, 7).with(kv{paramG2: 1.0, paramG3: 0.1, paramOmega3Re: 0.5})
	if err := c.setHalfPeriods(); err != nil || c.omega3Re != 0 {
		t.Errorf("Re ω3 = %g, %v, want 0", c.omega3Re, err)
	}
}
