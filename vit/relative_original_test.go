// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// biases returns the bias of every block, one after the other, [depth, heads, tokens, tokens].
func biases(t *testing.T, c Config, params map[string]any) (all []float64) {
	t.Helper()
	store := model.NewStore()
	store.SetParams(params)
	for _, bias := range run(t, store, func(s *model.Scope, in []*Node) (nodes []*Node) {
		relative := c.Encoders(s).Relative
		for block := range c.Depth {
			nodes = append(nodes, MulScalar(relative.AttentionBias(in[0].Graph(), block), 1))
		}
		return nodes
	}, float32(0)) {
		all = append(all, bias...)
	}
	return all
}

// onGrid is a model of one pixel a patch without a class token.
func onGrid(position string, rows, cols, depth, heads int) Config {
	return Config{ImageRows: rows, ImageCols: cols, PatchSize: 1, Width: 4 * heads, Depth: depth, Heads: heads, Classes: 1,
		Position: position, Pool: PoolMean}.WithDefaults()
}

func TestALiBi2DEqualsCROMA(t *testing.T) {
	var meta struct {
		Bias struct {
			Listed      []int    `json:"heads_listed"`
			Heads       int      `json:"grid_heads"`
			Square      [2]int   `json:"square_grid"`
			SquareHeads int      `json:"square_heads"`
			Grids       [][2]int `json:"grids_h_w"`
		}
		Tolerance struct {
			Slopes float64 `json:"slopes_abs"`
			Bias   float64 `json:"bias_abs"`
		}
	}
	fixtures.JSON(t, "alibi2d", "meta.json", &meta)
	want := fixtures.Tensors(t, "alibi2d", "tensors.safetensors")
	for _, heads := range meta.Bias.Listed {
		name := fmt.Sprintf("slopes%d_out", heads)
		gomlxtest.NearAbs(t, name, alibiSlopes(heads), want[name].Data, meta.Tolerance.Slopes)
	}
	near := func(form string, grid [2]int, heads int) {
		name := fmt.Sprintf("%s%dx%d.heads%d.bias_out", form, grid[0], grid[1], heads)
		c := onGrid("alibi2d", grid[0], grid[1], 1, heads)
		gomlxtest.NearAbs(t, name, biases(t, c, nil), want[name].Data, meta.Tolerance.Bias)
	}
	near("square", meta.Bias.Square, meta.Bias.SquareHeads)
	for _, grid := range meta.Bias.Grids {
		near("grid", grid, meta.Bias.Heads)
	}
}

func TestEveryBiasEqualsLookHere(t *testing.T) {
	var meta struct {
		Config struct {
			Slope  float64    `json:"global_slope"`
			Layers [2]float64 `json:"layer_slopes"`
		} `json:"bias_config"`
		Cases []struct {
			Name      string          `json:"name"`
			Grid      [2]int          `json:"grid_h_w"`
			Views     json.RawMessage `json:"head_directions"`
			Heads     int             `json:"num_heads"`
			Depth     int             `json:"depth"`
			Distance  string          `json:"distance"`
			Fill      string          `json:"fill_with"`
			QueryRows []int           `json:"query_rows"`
		} `json:"bias_cases"`
		Tolerance struct {
			Bias float64 `json:"bias_exact"`
		}
	}
	fixtures.JSON(t, "lookhere", "meta.json", &meta)
	want := fixtures.Tensors(t, "lookhere", "tensors.safetensors")
	fills := map[string]string{"": "hidden", "inf": "hidden", "zero": "zero", "max": "farthest"}
	for _, test := range meta.Cases {
		name := fmt.Sprintf("%s.grid%dx%d.bias_out", test.Name, test.Grid[0], test.Grid[1])
		var views string
		if json.Unmarshal(test.Views, &views) != nil {
			var list []string // one word for each layer
			if err := json.Unmarshal(test.Views, &list); err != nil {
				t.Fatal(err)
			}
			views = strings.Join(list, ",")
		}
		c := onGrid("lookhere", test.Grid[0], test.Grid[1], test.Depth, test.Heads)
		params := map[string]any{
			ParamLookHereViews: views, ParamLookHereSlope: meta.Config.Slope, ParamLookHereFirst: meta.Config.Layers[0],
			ParamLookHereLast: meta.Config.Layers[1], ParamLookHereFill: fills[test.Fill],
		}
		if test.Distance != "" {
			params[ParamLookHereDistance] = test.Distance
		}
		got := biases(t, c, params)
		if test.QueryRows != nil {
			var rows []float64
			n := c.Tokens()
			for at := 0; at < len(got); at += n {
				if slices.Contains(test.QueryRows, at/n%n) {
					rows = append(rows, got[at:at+n]...)
				}
			}
			got = rows
		}
		gomlxtest.NearAbs(t, name, got, want[name].Data, meta.Tolerance.Bias)
	}
}

// Whatever the number of heads, patches see themselves and the class token sees and is seen by all.
func TestABiasIsZeroForTheClassTokenAndFiniteForAll(t *testing.T) {
	for _, position := range []string{"alibi2d", "lookhere"} {
		for heads := 1; heads < 18; heads++ {
			c := onGrid(position, 3, 2, 2, heads)
			c.Pool = PoolClass
			n := c.Tokens()
			for i, x := range biases(t, c, nil) {
				query, key := i/n%n, i%n
				if (query == 0 || key == 0 || query == key) && x != 0 || math.IsNaN(x) || math.IsInf(x, 0) || x > 0 {
					t.Fatalf("%s, %d heads: bias of head %d from %d to %d is %g", position, heads, i/n/n%heads, query, key, x)
				}
			}
		}
	}
}
