// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"reflect"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
)

func TestEverySetterSetsItsHyperparameters(t *testing.T) {
	for i, c := range []struct {
		with   func(*Config) *Config
		params map[string]any
	}{
		{func(c *Config) *Config { return c.AsReleased() }, map[string]any{"wepe_mode": "release"}},
		{func(c *Config) *Config { return c.WithMLP(0.3) }, map[string]any{paramProjection: "mlp", "wepe_dropout": 0.3}},
		{func(c *Config) *Config { return c.WithHalfPeriods(1.1, complex(0.2, 1.3)) },
			map[string]any{paramOmega1: 1.1, "wepe_omega3": 1.3, paramOmega3Re: 0.2}},
		{func(c *Config) *Config { return c.WithLearnedLattice(false, true) },
			map[string]any{"wepe_learn_lattice": false, paramLearnOblique: true}},
		{func(c *Config) *Config { return c.WithHarmonics(3) }, map[string]any{paramHarmonics: 3}},
		{func(c *Config) *Config { return c.WithSpan(0.3, 0.7) }, map[string]any{paramAlphaU: 0.3, "wepe_alpha_v": 0.7}},
		{func(c *Config) *Config { return c.OnSphere() },
			map[string]any{paramCompression: "sphere", paramAlphaU: 1.0, "wepe_alpha_v": 1.0}},
		{func(c *Config) *Config { return c.WithAlphaScale(0.2, false) },
			map[string]any{paramAlphaScale: 0.2, "wepe_learn_alpha_scale": false}},
		{func(c *Config) *Config { return c.WithBetaPos(0.9, false) },
			map[string]any{"wepe_beta_pos": 0.9, "wepe_learn_beta_pos": false}},
		{func(c *Config) *Config { return c.WithTable(129, 0.01) },
			map[string]any{paramEvaluation: "table", "wepe_table_resolution": 129, paramTableError: 0.01}},
		{func(c *Config) *Config { return c.WithSurrogate("svhn", 0.3, 0.4) },
			map[string]any{"wepe_surrogate": "svhn", paramSurrogateBeta: 0.3, paramSurrogateGamma: 0.4}},
		{func(c *Config) *Config { return c.WithGate(0.3, false) },
			map[string]any{"wepe_gate": 0.3, "wepe_learn_gate": false}},
		{func(c *Config) *Config { return c.WithStart("centred") }, map[string]any{paramStart: "centred"}},
		{func(c *Config) *Config { return c.OnHalfCell() }, map[string]any{paramCompression: "sphere",
			paramAlphaU: 0.5, "wepe_alpha_v": 0.5, paramHarmonics: 2}},
	} {
		store := model.NewStore()
		named := New(store.RootScope(), 3, 5, 8)
		store.SetParams(c.params)
		named.FromScope()
		got := c.with(New(store.RootScope(), 3, 5, 8))
		got.scope = named.scope
		if !reflect.DeepEqual(got, named) {
			t.Errorf("case %d, %v: the setter gives\n%+v, the hyperparameters\n%+v", i, c.params, got, named)
		}
		if reflect.DeepEqual(got, New(named.scope, 3, 5, 8)) {
			t.Errorf("case %d: nothing is set", i)
		}
	}
}

// The numbers of docs/sphere.md and of the paper, whether set by a method or by name.
func TestDefaultsFollowTheCompressionAndAreKeptByZeros(t *testing.T) {
	named := model.NewStore()
	named.SetParams(map[string]any{paramCompression: "sphere"})
	for i, c := range []struct {
		config            *Config
		alphaScale, error float64
		nodes             int
	}{
		{New(nil, 3, 5, 8), 0.15, 1e-5, 256}, {New(nil, 3, 5, 8).WithTable(0, 0), 0.15, 1e-5, 256},
		{New(nil, 3, 5, 8).OnSphere(), 1, 1e-3, 256}, {New(nil, 3, 5, 8).OnSphere().WithTable(0, 0), 1, 1e-3, 256},
		{New(named.RootScope(), 3, 5, 8).FromScope(), 1, 1e-3, 256},
		{New(nil, 3, 5, 8).OnSphere().WithTable(33, 0.01), 1, 0.01, 33},
		{New(nil, 3, 5, 8).WithTable(64, 0.01).OnSphere(), 1, 0.01, 64}, // in any order
		{New(nil, 3, 5, 8).WithAlphaScale(0.3, true).OnSphere(), 0.3, 1e-3, 256},
		{New(named.RootScope(), 3, 5, 8).WithAlphaScale(0.3, true).FromScope(), 0.3, 1e-3, 256},
		{New(nil, 3, 5, 8).WithAlphaScale(0.15, true).OnSphere(), 0.15, 1e-3, 256},
	} {
		got := c.config.resolve()
		if got.alphaScale != c.alphaScale || got.tableError != c.error || got.tableResolution != c.nodes {
			t.Errorf("case %d: α_scale %g, error %g, %d nodes, want %g, %g, %d", i, got.alphaScale, got.tableError,
				got.tableResolution, c.alphaScale, c.error, c.nodes)
		}
	}
}

func TestASetterAfterFromScopeOverridesIt(t *testing.T) {
	store := model.NewStore()
	store.SetParams(map[string]any{paramHarmonics: 3, "wepe_gate": 0.5})
	c := New(store.RootScope(), 3, 5, 8).WithGate(0.25, true).FromScope().WithHarmonics(2)
	if c.harmonics != 2 || c.gate != 0.5 {
		t.Errorf("%d harmonics, a gate of %g, want 2 of the setter and 0.5 of the scope", c.harmonics, c.gate)
	}
}
