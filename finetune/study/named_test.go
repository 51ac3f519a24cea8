// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/finetune/data"
	"github.com/wepe-go/wepe/wepe"
)

// shapes are images of 32×32 pixels, and a recipe that sees 24×24 of them in patches of 4.
func shapes(t *testing.T) (finetune.Recipe, *data.Set) {
	t.Helper()
	set, _, err := data.Shapes(data.TaskWhere, 7, 5, 32, 0)
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := finetune.Named("cifar100-small")
	if err != nil {
		t.Fatal(err)
	}
	return recipe, set
}

func TestEveryUnitOfEveryStudyHasARecipeAndADirectoryOfItsOwn(t *testing.T) {
	recipe, set := shapes(t)
	for _, n := range All {
		s := Study{Dir: t.TempDir(), Tasks: []Task{{Recipe: recipe}}, Arms: n.Arms, Seeds: 3,
			Fractions: []float64{0.2, 0.7}}
		if s.Arms == nil {
			s.Arms = Each("none", "learned")
		}
		var err error
		if s.Sizes, err = SizesOf(n.Sides, recipe, set); err != nil {
			t.Fatal(err)
		}
		_, finals := units(t, &s, nil)
		if want := 3 * 2 * max(1, len(n.Sides)) * len(s.Arms); len(finals) != want {
			t.Errorf("%s: %d units, want %d", n.Name, len(finals), want)
		}
		dirs := map[string]Unit{}
		for _, u := range finals {
			r := u.Recipe
			r.Model.ImageRows, r.Model.ImageCols = r.Augment.OutputSize(32, 32)
			r.Model.Classes = 100
			if err := r.WithDefaults().Validate(); err != nil {
				t.Errorf("%s: %v: %v", n.Name, u, err)
			}
			if other, taken := dirs[u.Dir]; taken || strings.ContainsAny(filepath.Base(u.Dir), " ,=/") {
				t.Errorf("%s: %v lives in %s, like %v", n.Name, u, u.Dir, other)
			}
			dirs[u.Dir] = u
		}
		for label := range n.Published.Top1 {
			if !slices.ContainsFunc(s.Arms, func(a Arm) bool { return a.Label == label }) && n.Arms != nil {
				t.Errorf("%s: a published number of %q, which is no arm", n.Name, label)
			}
		}
		if n.Baseline != "" && !slices.ContainsFunc(s.Arms, func(a Arm) bool { return a.Label == n.Baseline }) {
			t.Errorf("%s: no arm %q to compare with", n.Name, n.Baseline)
		}
	}
}

// What the rows of the paper's tables change in a model, written down apart from the studies' own settings: the
// ablation's table, with fixed standing for what is not trained.
func TestTheArmsOfAblationAndGateAreWhatTheirLabelsSay(t *testing.T) {
	recipe, _ := shapes(t)
	type params = map[string]any
	want := map[string]params{
		"wepe":                            nil,
		"wepe without ℘′":                 {"wepe_derivative": false},
		"wepe, lattice fixed":             {"wepe_learn_lattice": false},
		"wepe, α_scale fixed":             {"wepe_learn_alpha_scale": false},
		"wepe, α_scale and lattice fixed": {"wepe_learn_lattice": false, "wepe_learn_alpha_scale": false},
		"wepe, β_pos = 1 fixed":           {"wepe_learn_beta_pos": false, "wepe_beta_pos": 1.0},
		"wepe, g2 = 1, g3 = 0.1":          {"wepe_g2": 1.0, "wepe_g3": 0.1},
		"wepe, MLP projection":            {"wepe_projection": "mlp"},
		// Ours: at the area of the default cell, and the invariants of the released script.
		"wepe, g2 = 1, g3 = 0.1, equal area": {"wepe_g2": 1.0, "wepe_g3": 0.1, "wepe_area": 1.0},
		"wepe, g2 = 0.8, g3 = 0.2":           {"wepe_g2": 0.8, "wepe_g3": 0.2},
		"none":                               nil,
	}
	n, err := ByName("ablation")
	if err != nil {
		t.Fatal(err)
	}
	gate, err := ByName("gate")
	if err != nil {
		t.Fatal(err)
	}
	for label, of := range map[string]params{
		"learned": nil, "wepe": nil,
		// Started as drawn, by default: the directories of before the other starts go on.
		"hybrid λ = 0.02":        {"wepe_gate": 0.02},
		"hybrid λ = 1 fixed":     {"wepe_gate": 1.0, "wepe_learn_gate": false},
		"hybrid fitted λ = 0.5":  {"wepe_gate": 0.5, "wepe_start": "fitted"},
		"hybrid over ℘ λ = 0.12": {"wepe_gate": 0.12, "wepe_start": "drawn", "wepe_blend": "exact"},
		"hybrid over ℘ λ = 1 fixed": {"wepe_gate": 1.0, "wepe_learn_gate": false, "wepe_start": "drawn",
			"wepe_blend": "exact"},
	} {
		i := slices.IndexFunc(gate.Arms, func(a Arm) bool { return a.Label == label })
		if i < 0 {
			t.Errorf("study gate lacks %q", label)
			continue
		}
		if r, err := recipe.Set(gate.Arms[i].Settings); err != nil || !maps.Equal(r.Params, of) {
			t.Errorf("%s trains with %v, %v, want %v", label, r.Params, err, of)
		}
	}
	if wepe.DefaultStart != wepe.StartDrawn {
		t.Errorf("the arms without a start begin %s", wepe.DefaultStart)
	}
	if len(n.Arms) != len(want) {
		t.Errorf("%d arms, want %d", len(n.Arms), len(want))
	}
	for _, arm := range n.Arms {
		r, err := recipe.Set(arm.Settings)
		of, known := want[arm.Label]
		if err != nil || !known || !maps.Equal(r.Params, of) {
			t.Errorf("%s trains with %v, %v, want %v", arm.Label, r.Params, err, of)
		}
		if position := strings.Fields(strings.ReplaceAll(arm.Label, ",", " "))[0]; arm.Position != position {
			t.Errorf("%s is an arm of %s", arm.Label, arm.Position)
		}
	}
}

// The values of the paper's tables of sensitivity, from paper_tables.json of the reference data, and of its study of β
// and γ.
func TestTheSweepsHaveThePapersValues(t *testing.T) {
	recipe, _ := shapes(t)
	grid := []float64{0.01, 0.05, 0.1, 0.2, 0.5}
	var pairs [][]float64
	for _, beta := range grid {
		for _, gamma := range grid {
			pairs = append(pairs, []float64{beta, gamma})
		}
	}
	single := func(values ...float64) (rows [][]float64) {
		for _, v := range values {
			rows = append(rows, []float64{v})
		}
		return rows
	}
	for _, c := range []struct {
		study    string
		position string
		keys     [][]string // hyperparameters of each value
		values   [][]float64
		fixed    map[string]any
	}{
		{"span", "wepe", [][]string{{"wepe_alpha_u", "wepe_alpha_v"}}, single(0.2, 0.4, 0.6, 0.8, 1, 1.2), nil},
		{"alpha-scale", "wepe", [][]string{{"wepe_alpha_scale"}}, single(0.01, 0.05, 0.1, 0.15, 0.3, 0.5), nil},
		{"kappa", "wepe", [][]string{{"wepe_kappa"}}, single(1, 5, 15, 30, 60, 120), map[string]any{"wepe_evaluation": "sum"}},
		{"c-large", "wepe", [][]string{{"wepe_c_large"}}, single(50, 200, 500, 2000, 5000, 1e5),
			map[string]any{"wepe_evaluation": "sum"}},
		{"beta-gamma", "hybrid", [][]string{{"wepe_surrogate_beta"}, {"wepe_surrogate_gamma"}}, pairs,
			map[string]any{"wepe_surrogate": "sweep"}},
	} {
		n, err := ByName(c.study)
		if err != nil {
			t.Fatal(err)
		}
		arms := slices.DeleteFunc(slices.Clone(n.Arms), func(a Arm) bool { return a.Position == "learned" })
		if len(arms) != len(c.values) {
			t.Errorf("%s: %d arms, want %d", c.study, len(arms), len(c.values))
			continue
		}
		for i, arm := range arms {
			want := map[string]any{}
			maps.Copy(want, c.fixed)
			for k, keys := range c.keys {
				for _, key := range keys {
					want[key] = c.values[i][k]
				}
			}
			r, err := recipe.Set(arm.Settings)
			if err != nil || arm.Position != c.position || !maps.Equal(r.Params, want) {
				t.Errorf("%s: %s trains %s with %v, %v, want %v", c.study, arm.Label, arm.Position, r.Params, err, want)
			}
		}
	}
}

// The paper's pictures, height × width, at its side of 224: 2:1, 1:2, 1:3 and 4:1 are 224×448, 448×224, 672×224 and
// 112×448.
func TestTheAspectsAreThoseOfThePaper(t *testing.T) {
	recipe, set := shapes(t)
	n, err := ByName("aspect")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ side, patch int }{{224, 16}, {24, 4}, {32, 8}} {
		recipe.Augment.Size, recipe.Model.PatchSize = [2]int{c.side, c.side}, c.patch
		got, err := SizesOf(n.Sides, recipe, set)
		s := c.side
		want := [][2]int{{s, s}, {s, 2 * s}, {2 * s, s}, {3 * s, s}, {s / 2, 2 * s}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("side %d: %v, %v, want %v", s, got, err, want)
		}
	}
	recipe.Augment.Size, recipe.Model.PatchSize = [2]int{36, 36}, 8 // half of 36 is 2.25 patches
	if got, err := SizesOf([][2]float64{{0.5, 2}, {0.01, 1}}, recipe, set); err != nil ||
		!slices.Equal(got, [][2]int{{16, 72}, {8, 40}}) {
		t.Errorf("sizes in patches of 8: %v, %v", got, err)
	}
	recipe.Model.PatchSize = 0
	if _, err := SizesOf(n.Sides, recipe, set); err == nil || !strings.Contains(err.Error(), "patch_size") {
		t.Errorf("without a patch size: %v", err)
	}
}
