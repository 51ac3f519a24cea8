// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/internal/weight"
)

// biases returns the bias of every block, one after the other, [depth, heads, tokens, tokens].
func biases(t *testing.T, c named, params map[string]any) []float64 {
	t.Helper()
	return slices.Concat(gomlxtest.RunModel(t, stored(params), func(s *model.Scope, in []*Node) (nodes []*Node) {
		relative := acting[Biaser](c, s)
		for block := range c.Depth {
			nodes = append(nodes, MulScalar(relative.Bias(in[0].Graph(), block), 1))
		}
		return nodes
	}, float32(0))...)
}

func TestALiBi2DEqualsCROMA(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		var meta struct {
			Bias struct {
				Listed      []int    `json:"heads_listed"`
				Heads       int      `json:"grid_heads"`
				Square      [2]int   `json:"square_grid"`
				SquareHeads int      `json:"square_heads"`
				Grids       [][2]int `json:"grids_h_w"`
			}
			Tolerance map[string]float64
		}
		fixtures.JSON(t, "alibi2d", "meta.json", &meta)
		want := fixtures.Tensors(t, "alibi2d", "tensors.safetensors")
		for _, heads := range meta.Bias.Listed { // the bias of two neighbours is minus the slope
			name, bias := fmt.Sprintf("slopes%d_out", heads), biases(t, onGrid("alibi2d", 1, 2, 1, heads), nil)
			var slopes []float64
			for head := range heads {
				slopes = append(slopes, -bias[4*head+1])
			}
			gomlxtest.NearAbs(t, name, slopes, want[name].Data, meta.Tolerance["slopes_abs"])
		}
		near := func(form string, grid [2]int, heads int) {
			name := fmt.Sprintf("%s%dx%d.heads%d.bias_out", form, grid[0], grid[1], heads)
			gomlxtest.NearAbs(t, name, biases(t, onGrid("alibi2d", grid[0], grid[1], 1, heads), nil), want[name].Data,
				meta.Tolerance["bias_abs"])
		}
		near("square", meta.Bias.Square, meta.Bias.SquareHeads)
		for _, grid := range meta.Bias.Grids {
			near("grid", grid, meta.Bias.Heads)
		}
	})
}

// The cases with the settings of the published models.
func TestEveryBiasEqualsLookHere(t *testing.T) {
	fixtures.Each(t, func(t *testing.T) {
		var meta struct {
			Config struct {
				Slope  float64    `json:"global_slope"`
				Layers [2]float64 `json:"layer_slopes"`
			} `json:"bias_config"`
			Cases []struct {
				Name      string
				Grid      [2]int `json:"grid_h_w"`
				Views     any    `json:"head_directions"`
				Heads     int    `json:"num_heads"`
				Depth     int
				Distance  string
				Fill      string `json:"fill_with"`
				QueryRows []int  `json:"query_rows"`
			} `json:"bias_cases"`
		}
		fixtures.JSON(t, "lookhere", "meta.json", &meta)
		if meta.Config.Slope != 1 || meta.Config.Layers != [2]float64{1.5, 0.5} {
			t.Skip("a form that is not in this library")
		}
		want, compared := fixtures.Tensors(t, "lookhere", "tensors.safetensors"), 0
		for _, test := range meta.Cases {
			views, _ := test.Views.(string)
			if lookHereGroups[views] == nil || test.Distance != "" || test.Fill != "" {
				continue // not in this library
			}
			compared++
			got := biases(t, onGrid("lookhere", test.Grid[0], test.Grid[1], test.Depth, test.Heads),
				map[string]any{ParamLookHereViews: views})
			if n := test.Grid[0] * test.Grid[1]; test.QueryRows != nil {
				var rows []float64
				for at := 0; at < len(got); at += n {
					if slices.Contains(test.QueryRows, at/n%n) {
						rows = append(rows, got[at:at+n]...)
					}
				}
				got = rows
			}
			name := fmt.Sprintf("%s.grid%dx%d.bias_out", test.Name, test.Grid[0], test.Grid[1])
			gomlxtest.NearAbs(t, name, got, want[name].Data, 0)
		}
		if compared < 4 {
			t.Errorf("%d cases", compared)
		}
	})
}

// With fewer than four heads both axes come before both directions.
func TestFewHeadsOfLookHereSeeUpThenLeftThenDown(t *testing.T) {
	for n, want := range map[int]string{1: "[up]", 2: "[up left]", 3: "[up left down]", 4: "[up down left right]"} {
		var views []string
		for _, h := range lookHereHeads(lookHereGroups["halves-none"], n) {
			views = append(views, h.views...)
		}
		is.Equal(t, fmt.Sprint(n, " heads see"), fmt.Sprint(views), want)
	}
}

// A bias that is equal in all blocks is one node of the graph; LookHere's has one for each.
func TestAFixedBiasIsBuiltOnceForEqualBlocks(t *testing.T) {
	for label, want := range map[string]bool{"alibi2d": true, "lookhere": false} {
		c := onGrid(label, 2, 3, 2, 4)
		gomlxtest.RunModel(t, model.NewStore(), func(s *model.Scope, in []*Node) []*Node {
			relative, g := acting[Biaser](c, s), in[0].Graph()
			first, second := relative.Bias(g, 0), relative.Bias(g, 1)
			is.Equal(t, label+": built once", first == relative.Bias(g, 0) && second == relative.Bias(g, 1), true)
			is.Equal(t, label+": one node for both blocks", first == second, want)
			return in
		}, float32(0))
	}
}

// With any number of heads, patches see themselves, prefix tokens see all and are seen by all, and the bias of two
// patches is that without a prefix.
func TestABiasIsZeroForThePrefixAndFiniteForAll(t *testing.T) {
	for _, label := range []string{"alibi2d", "lookhere"} {
		for heads := 1; heads < 18; heads++ {
			bare := onGrid(label, 3, 2, 2, heads)
			c := bare
			c.Prefix, c.Registers = 3, 2
			var got []float64
			for i, x := range biases(t, c, nil) {
				query, key := i/9%9, i%9
				if query >= 3 && key >= 3 {
					got = append(got, x)
				}
				if (min(query, key) < 3 || query == key) && x != 0 || math.IsNaN(x) || math.IsInf(x, 0) || x > 0 {
					t.Fatalf("%s, %d heads: bias from %d to %d is %g", label, heads, query, key, x)
				}
			}
			gomlxtest.NearAbs(t, fmt.Sprint(label, heads), got, biases(t, bare, nil), 0)
		}
	}
}

// A 1×2 grid has the scores a, b, a at the offsets -1, 0, 1. A 1×3 grid has five offsets, whose places among them, with
// half-pixel centres and clamped at the border, are -0.2, 0.4, 1, 1.6 and 2.2. The same of columns.
func TestATableIsResampledLinearly(t *testing.T) {
	const a, b = 3.0, -2.0
	for trained, on := range map[[2]int][2]int{{1, 2}: {1, 3}, {2, 1}: {3, 1}} {
		c := onGrid("relative-table", on[0], on[1], 1, 1)
		store := stored(map[string]any{"relative_table_rows": trained[0], "relative_table_cols": trained[1]})
		bias := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			r, g := newRelativeTable(s, c.Config).(*relativeTable), in[0].Graph()
			r.tables[0].SetNodeValue(Const(g, [][]float32{{a}, {b}, {a}, {7}, {8}, {9}}))
			return []*Node{r.Bias(g, 0)}
		}, float32(0))[0]
		const near = 0.6*a + 0.4*b
		gomlxtest.NearAbs(t, fmt.Sprint(on), bias, []float64{b, near, a, near, b, near, a, near, b}, 1e-5)

		c = onGrid("grid2d", on[0], on[1], 0, 1)
		c.Width = 1
		store = stored(map[string]any{"grid2d_rows": trained[0], "grid2d_cols": trained[1]})
		rows := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			values := weight.AtOnce(func(*rand.Rand) []float64 { return []float64{a, b} })
			weight.Float32(store.Scope("/position/grid2d"), "table", values, trained[0], trained[1], 1)
			return []*Node{MulScalar(acting[Adder](c, s).Encode(in[0].Graph()), 1)}
		}, float32(0))[0]
		gomlxtest.NearAbs(t, fmt.Sprint("grid2d ", on), rows, []float64{a, (a + b) / 2, b}, 1e-6)
	}
}
