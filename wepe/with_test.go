// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"reflect"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
)

// A setter before FromScope sets a default; after it, it overrides the scope.
func TestConfig_SettersAndScope(t *testing.T) {
	for i, c := range []struct {
		set    func(*Config) *Config
		params kv
	}{
		{func(c *Config) *Config { return c.WithHarmonics(3) }, kv{ParamHarmonics: 3}},
		{func(c *Config) *Config { return c.WithSpan(0.3, 0.7) }, ofSpan(0.3, 0.7)},
		{(*Config).OnSphere, kv{byCompression: compressSphere, ParamAlphaU: 1.0, ParamAlphaV: 1.0}},
		{(*Config).OnHalfCell, kv{byCompression: compressSphere, ParamAlphaU: 0.5, ParamAlphaV: 0.5, ParamHarmonics: 2}},
		{(*Config).WithSum, kv{byEvaluation: evaluateSum}},
		{(*Config).WithTable, kv{byEvaluation: evaluateTable}},
	} {
		if got, want := c.set(New(nil, 3, 5, 8)), New(nil, 3, 5, 8).with(c.params); !reflect.DeepEqual(got, want) {
			t.Errorf("case %d, %v: the setter gives\n%+v, want\n%+v", i, c.params, got, want)
		}
	}
	store := model.NewStore()
	store.SetParams(kv{ParamHarmonics: 3, ParamAlphaU: 0.5})
	c := New(store.RootScope(), 3, 5, 8).WithSpan(0.25, 0.25).FromScope().WithHarmonics(2)
	if c.harmonics != 2 || c.alphaU != 0.5 || c.alphaV != 0.25 {
		t.Errorf("%d harmonics, spans %g and %g, want 2, 0.5 and 0.25", c.harmonics, c.alphaU, c.alphaV)
	}
}

// The numbers of the paper and of docs/sphere.md.
func TestConfig_DefaultAlphaScale(t *testing.T) {
	for i, c := range []struct {
		config *Config
		want   float64
	}{
		{New(nil, 3, 5, 8), 0.15}, {New(nil, 3, 5, 8).WithTable(), 0.15}, {New(nil, 3, 5, 8).OnSphere(), 1},
		{New(nil, 3, 5, 8).with(kv{ParamAlphaScale: 0.15}).OnSphere(), 0.15},
	} {
		if got := c.config.resolve().alphaScale; got != c.want {
			t.Errorf("case %d: α_scale is %g, want %g", i, got, c.want)
		}
	}
}
