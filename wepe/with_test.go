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
		{func(c *Config) *Config { return c.WithMode(Release) }, map[string]any{ParamMode: "release"}},
		{func(c *Config) *Config { return c.WithProjection(MLP) }, map[string]any{ParamProjection: "mlp"}},
		{func(c *Config) *Config { return c.WithDropout(0.3) }, map[string]any{ParamDropout: 0.3}},
		{func(c *Config) *Config { return c.WithDerivative(false) }, map[string]any{ParamDerivative: false}},
		{func(c *Config) *Config { return c.WithHalfPeriods(1.1, complex(0.2, 1.3)) },
			map[string]any{ParamOmega1: 1.1, ParamOmega3: 1.3, ParamOmega3Re: 0.2}},
		{func(c *Config) *Config { return c.WithInvariants(2, 3) }, map[string]any{ParamG2: 2.0, ParamG3: 3.0}},
		{func(c *Config) *Config { return c.WithArea(1.7) }, map[string]any{ParamArea: 1.7}},
		{func(c *Config) *Config { return c.WithLearnedLattice(false, true) },
			map[string]any{ParamLearnLattice: false, ParamLearnOblique: true}},
		{func(c *Config) *Config { return c.WithHarmonics(3) }, map[string]any{ParamHarmonics: 3}},
		{func(c *Config) *Config { return c.WithScales(2, 1.9) },
			map[string]any{ParamScales: 2, ParamScaleRatio: 1.9}},
		{func(c *Config) *Config { return c.WithSpan(0.3, 0.7) }, map[string]any{ParamAlphaU: 0.3, ParamAlphaV: 0.7}},
		{func(c *Config) *Config { return c.WithOffset(0.1, -0.2) },
			map[string]any{ParamOffsetU: 0.1, ParamOffsetV: -0.2}},
		{func(c *Config) *Config { return c.WithShift(0.5) }, map[string]any{ParamShift: 0.5}},
		{func(c *Config) *Config { return c.WithTrainedGrid(7, 11) }, map[string]any{ParamRows: 7, ParamCols: 11}},
		{func(c *Config) *Config { return c.WithCompression(CompressSphere) },
			map[string]any{ParamCompression: "sphere"}},
		{func(c *Config) *Config { return c.OnSphere() },
			map[string]any{ParamCompression: "sphere", ParamAlphaU: 1.0, ParamAlphaV: 1.0, ParamAlphaScale: 1.0}},
		{func(c *Config) *Config { return c.WithAlphaScale(0.2, false) },
			map[string]any{ParamAlphaScale: 0.2, ParamLearnAlphaScale: false}},
		{func(c *Config) *Config { return c.WithBetaPos(0.9, false) },
			map[string]any{ParamBetaPos: 0.9, ParamLearnBetaPos: false}},
		{func(c *Config) *Config { return c.WithEvaluation(EvaluateSum) },
			map[string]any{ParamEvaluation: EvaluateSum}},
		{func(c *Config) *Config { return c.WithLatticeSum(sum) }, map[string]any{ParamSumCut: 7, ParamKappa: 0.3,
			ParamCLarge: 11.0, ParamTermClip: 13.0, ParamFinalClip: 17.0}},
		{func(c *Config) *Config { return c.WithTable(Raw, 129, 0.01) },
			map[string]any{ParamTable: "raw", ParamTableResolution: 129, ParamTableError: 0.01}},
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
	store.SetParams(map[string]any{ParamHarmonics: 3, ParamShift: 0.5})
	c := New(store.RootScope(), 3, 5, 8).WithShift(0.25).FromScope().WithHarmonics(2)
	if c.harmonics != 2 || c.shift != 0.5 {
		t.Errorf("%d harmonics, a shift of %g, want 2 of the setter and 0.5 of the scope", c.harmonics, c.shift)
	}
}
