// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func costOf(t *testing.T, c Config, params map[string]any) Cost {
	t.Helper()
	store := model.NewStore()
	store.SetParams(params)
	cost, err := c.Cost(gomlxtest.Backend(), store.Scope("/vit"))
	if err != nil {
		t.Fatal(err)
	}
	if store.NumVariables() != 0 {
		t.Errorf("%s: counting created %d variables", c.Position, store.NumVariables())
	}
	return cost
}

func TestCostIsTheArithmeticOfTheEncoding(t *testing.T) {
	for _, pool := range []string{PoolClass, PoolMean} {
		c := small("none", pool)
		tokens, patches := c.Tokens(), c.Rows()*c.Cols()
		d := c.Width / c.Heads
		scores := c.Heads * tokens * tokens
		// A rotary encoding of pairs: a product with a [d, d] matrix, two with tables and their sum, for q and k.
		pairs := c.Depth * 2 * tokens * c.Width * (d + 3)
		// Rotations of g = d = 4 channels: a product with each block, for q and k; exponents y·A₀ + x·A₁ of two terms.
		const squarings, g = 6, 4 // norm up to 2·4π·cot(π/8) = 60.7
		matrices := tokens * c.Heads
		// Five products and the squarings; 1/2^s, the leading coefficient, and 3·4 terms of one product and one sum, of
		// which those with the unit matrix are multiplied once for all.
		perMatrix := (5+squarings)*g*g*g + (1+1+3*(3+4))*g*g
		generators := 2 * c.Heads // each clipped below and above, and spread with signs over g·g places
		liere := c.Depth * (matrices*(g*g*2+perMatrix) + generators*(2*g*(g-1)/2+g*g) + 3*g*g)
		for name, want := range map[string]Cost{
			"none":         {},
			"learned":      {tokens * c.Width, 0, tokens * c.Width},
			"sinusoidal1d": {0, 0, tokens * c.Width},
			"sincos2d":     {0, 0, tokens * c.Width},
			"grid2d":       {tokens * c.Width, 0, tokens * c.Width},
			"rope1d":       {0, 0, pairs},
			"rope-axial":   {0, 0, pairs},
			"liere":        {c.Depth * 2 * c.Heads * g * (g - 1) / 2, liere, c.Depth * 2 * tokens * c.Width * g},
		} {
			c.Position = name
			if got := costOf(t, c, nil); got != want {
				t.Errorf("%s, pool %s: %+v, want %+v", name, pool, got, want)
			}
		}
		c.Position = "wepe-bias"
		if got := costOf(t, c, nil); got.PerImage != c.Depth*scores || got.PerStep < patches*patches {
			t.Errorf("wepe-bias, pool %s: %+v, want %d an image and more than one for each pair a step", pool, got,
				c.Depth*scores)
		}
	}
}

func TestCostCountsTheParametersOfEveryEncoding(t *testing.T) {
	for _, p := range Positions() {
		c := small(p.Name, PoolClass)
		if got, want := costOf(t, c, nil).Parameters, p.Parameters(c); got != want {
			t.Errorf("%s: %d parameters, want %d", p.Name, got, want)
		}
	}
}

func TestCostReadsHyperparameters(t *testing.T) {
	c, err := Variant("B/16")
	if err != nil {
		t.Fatal(err)
	}
	c.Position = "liere"
	// "580k" in https://arxiv.org/abs/2406.10322 for ViT-B with blocks of a whole head.
	if got := costOf(t, c, map[string]any{ParamLiereBlock: 64}).Parameters; got/1000 != 580 {
		t.Errorf("liere of whole heads has %d parameters, want the paper's 580k", got)
	}
	c = small("liere", PoolClass)
	all, first := costOf(t, c, nil), costOf(t, c, map[string]any{ParamLiereFirstLayer: true})
	first.PerStep, first.Parameters = first.PerStep*c.Depth, first.Parameters*c.Depth
	if first != all {
		t.Errorf("layer 0's rotations everywhere, times %d, cost %+v, rotations of all layers %+v", c.Depth, first, all)
	}

	store := model.NewStore()
	store.SetParam(ParamLiereBlock, 3)
	if _, err := c.Cost(gomlxtest.Backend(), store.Scope("/vit")); err == nil ||
		!strings.Contains(err.Error(), `cost of position "liere": vit: liere_block = 3`) {
		t.Errorf("a bad hyperparameter: %v", err)
	}
}
