// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
)

func TestPositionsAreListedByKind(t *testing.T) {
	byKind := map[string][]string{}
	for _, p := range Positions() {
		byKind[p.Kind()] = append(byKind[p.Kind()], p.Name)
		if p.Doc == "" || strings.ContainsAny(p.Doc, "\n|") {
			t.Errorf("%s: Doc is %q, want a few words", p.Name, p.Doc)
		}
		if p.Folds() != (p.Kind() == KindNone || p.Kind() == KindAdded) {
			t.Errorf("%s is %s and folds %v", p.Name, p.Kind(), p.Folds())
		}
	}
	for kind, want := range map[string][]string{
		KindNone:   {"none"},
		KindAdded:  {"learned", "sinusoidal1d", "sincos2d", "grid2d", "wepe", "wepe-lut", "hybrid"},
		KindRotary: {"rope1d", "rope-axial", "rope-mixed", "as2drope", "fope", "liere"},
		KindBias:   {"wepe-bias"},
	} {
		if got := byKind[kind]; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
	}
	Positions()[0].Name = "changed"
	if got := PositionNames(); got[0] != "none" {
		t.Errorf("the list is the caller's to change, and now begins with %q", got[0])
	}
}

// wepe-lut is wepe with wepe_evaluation=table in every bit, and wepe itself but for the error of the table.
func TestWePELUTIsWePEByItsTable(t *testing.T) {
	rows := func(position string, params map[string]any) []float64 {
		store := seeded(t, 7)
		store.SetParams(params)
		return rowsOf(t, small(position, PoolClass), store)
	}
	got := rows("wepe-lut", map[string]any{"wepe_table_resolution": 65})
	want := rows("wepe", map[string]any{"wepe_table_resolution": 65, "wepe_evaluation": "table"})
	if !slices.Equal(got, want) {
		t.Error("wepe-lut differs from wepe_evaluation=table")
	}
	exact := rows("wepe", nil)
	if slices.Equal(got, exact) || slices.Equal(rows("wepe-lut", map[string]any{"wepe_evaluation": "exact"}), got) {
		t.Error("wepe-lut does not look anything up")
	}
	worst := 0.0
	for i := range exact {
		worst = max(worst, math.Abs(got[i]-exact[i]))
	}
	if !(worst < 1e-4) {
		t.Errorf("the table of 65 nodes changes the vectors by %g", worst)
	}

	store := model.NewStore()
	rowsOf(t, small("wepe-lut", PoolClass), store)
	if v := store.GetVariable("/vit/position/wepe/omega3_raw"); v != nil && v.Trainable {
		t.Error("ω3′ is trained, and leaves the table behind")
	}
}
