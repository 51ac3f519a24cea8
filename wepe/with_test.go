// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"reflect"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
)

func TestEverySetterSetsItsHyperparameters(t *testing.T) {
	sum := LatticeSum{Cut: 7, Kappa: 0.3, CLarge: 11, TermClip: 13, FinalClip: 17}
	set := map[string]bool{}
	for i, c := range []struct {
		with   func(*Config) *Config
		params map[string]any
	}{
		{func(c *Config) *Config { return c.AsReleased() }, map[string]any{paramMode: "release"}},
		{func(c *Config) *Config { return c.WithMLP(0.3) }, map[string]any{paramProjection: "mlp", paramDropout: 0.3}},
		{func(c *Config) *Config { return c.WithDerivative(false) }, map[string]any{paramDerivative: false}},
		{func(c *Config) *Config { return c.WithHalfPeriods(1.1, complex(0.2, 1.3)) },
			map[string]any{paramOmega1: 1.1, paramOmega3: 1.3, paramOmega3Re: 0.2}},
		{func(c *Config) *Config { return c.WithInvariants(2, 3) }, map[string]any{paramG2: 2.0, paramG3: 3.0}},
		{func(c *Config) *Config { return c.WithArea(1.7) }, map[string]any{paramArea: 1.7}},
		{func(c *Config) *Config { return c.WithLearnedLattice(false, true) },
			map[string]any{paramLearnLattice: false, paramLearnOblique: true}},
		{func(c *Config) *Config { return c.WithHarmonics(3) }, map[string]any{paramHarmonics: 3}},
		{func(c *Config) *Config { return c.WithScales(2, 1.9) },
			map[string]any{paramScales: 2, paramScaleRatio: 1.9}},
		{func(c *Config) *Config { return c.WithSpan(0.3, 0.7) }, map[string]any{paramAlphaU: 0.3, paramAlphaV: 0.7}},
		{func(c *Config) *Config { return c.WithOffset(0.1, -0.2) },
			map[string]any{paramOffsetU: 0.1, paramOffsetV: -0.2}},
		{func(c *Config) *Config { return c.WithShift(0.5) }, map[string]any{paramShift: 0.5}},
		{func(c *Config) *Config { return c.WithTrainedGrid(7, 11) }, map[string]any{paramRows: 7, paramCols: 11}},
		{func(c *Config) *Config { return c.OnSphere() },
			map[string]any{paramCompression: "sphere", paramAlphaU: 1.0, paramAlphaV: 1.0, paramAlphaScale: 1.0}},
		{func(c *Config) *Config { return c.WithAlphaScale(0.2, false) },
			map[string]any{paramAlphaScale: 0.2, paramLearnAlphaScale: false}},
		{func(c *Config) *Config { return c.WithBetaPos(0.9, false) },
			map[string]any{paramBetaPos: 0.9, paramLearnBetaPos: false}},
		{func(c *Config) *Config { return c.WithLatticeSum(sum) }, map[string]any{paramEvaluation: "sum", paramSumCut: 7,
			paramKappa: 0.3, paramCLarge: 11.0, paramTermClip: 13.0, paramFinalClip: 17.0}},
		{func(c *Config) *Config { return c.WithTable(129, 0.01) },
			map[string]any{paramEvaluation: "table", paramTableResolution: 129, paramTableError: 0.01}},
		{func(c *Config) *Config { return c.WithRawTable(129) },
			map[string]any{paramEvaluation: "table", paramTable: "raw", paramTableResolution: 129}},
		{func(c *Config) *Config { return c.OnHalfCell() }, map[string]any{paramCompression: "sphere",
			paramAlphaU: 0.5, paramAlphaV: 0.5, paramHarmonics: 2}},
	} {
		store := model.NewStore()
		named := New(store.RootScope(), 3, 5, 8)
		store.SetParams(c.params)
		named.FromScope()
		for name := range c.params {
			set[name] = true
		}
		got := c.with(New(store.RootScope(), 3, 5, 8))
		got.scope = named.scope
		if !reflect.DeepEqual(got, named) {
			t.Errorf("case %d, %v: the setter gives\n%+v, the hyperparameters\n%+v", i, c.params, got, named)
		}
		if reflect.DeepEqual(got, New(named.scope, 3, 5, 8)) {
			t.Errorf("case %d: nothing is set", i)
		}
	}
	for _, name := range setting.Names(New(model.NewStore().RootScope(), 3, 5, 8).settings()) {
		if !set[name] {
			t.Errorf("no setter sets %s", name)
		}
	}
}

func TestASetterAfterFromScopeOverridesIt(t *testing.T) {
	store := model.NewStore()
	store.SetParams(map[string]any{paramHarmonics: 3, paramShift: 0.5})
	c := New(store.RootScope(), 3, 5, 8).WithShift(0.25).FromScope().WithHarmonics(2)
	if c.harmonics != 2 || c.shift != 0.5 {
		t.Errorf("%d harmonics, a shift of %g, want 2 of the setter and 0.5 of the scope", c.harmonics, c.shift)
	}
}
