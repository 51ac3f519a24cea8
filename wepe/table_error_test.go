// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// Lattices up to eleven times as long as wide, at random positions, half of them around the half-periods at distances
// of every order.
func TestTable_says_at_least_95_percent_of_its_worst_error(t *testing.T) {
	gomlxtest.OnGo(t)
	for _, omega3p := range []float64{weierstrass.OmegaSquare, 1.4, 20, 0.755, 0.5, 0.3} {
		for _, c := range []struct {
			kind       tableKind
			span       float64
			resolution int
			alphaScale float64
		}{
			{sphereTable, 1, 33, 1}, {sphereTable, 1, 257, 1.7}, {deflatedTable, 0.4, 64, 0.15}, {deflatedTable, 0.9, 65, 0.6},
		} {
			key := tableKey{Mode: paper, Omega1: weierstrass.OmegaSquare, Omega3p: omega3p, SpanU: c.span, SpanV: c.span,
				Resolution: c.resolution, Kind: c.kind}
			table := gomlxtest.Must(key.onHost())(t)
			said, off := table.errorOf(c.alphaScale), table.off(c.alphaScale)
			random, worst := rand.New(rand.NewPCG(3, 7)), 0.0
			for i := range 20_000 {
				x, y := c.span*random.Float64(), c.span*random.Float64()
				if i%2 == 0 {
					r, way := math.Pow(10, -6*random.Float64()), 2*math.Pi*random.Float64()
					x = min(max(float64(random.IntN(3))/2+r*math.Cos(way), 0), c.span)
					y = min(max(float64(random.IntN(3))/2+r*math.Sin(way), 0), c.span)
				}
				if math.Hypot(math.Mod(x, 1), math.Mod(y, 1)) > 1e-7 { // at a pole itself the guard applies
					worst = max(worst, off(x, y))
				}
			}
			if !(said >= 0.95*worst) || said > 2.0000001 {
				t.Errorf("ω3′ = %g, %+v: says %.4g, errs by %.4g", omega3p, c, said, worst)
			}
		}
	}
}

// Errors are of the values that the graph looks up: between the nodes of a stored table, on the sphere and off it.
func TestTable_error_is_that_of_the_graph(t *testing.T) {
	for _, form := range []kv{ofTable(deflatedTable, 17), {paramEvaluation: evaluateTable, paramCompression: "sphere",
		paramAlphaScale: 1.0, "wepe_table_resolution": 17, paramTableError: 2}} {
		var e *Encoder
		got := run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
			e = New(s, 5, 7, 2).with(form).FromScope().Done()
			return []*Node{e.Features(g)}
		}), float32(0))[0]
		key, scale, err := e.checkTable()
		if err != nil {
			t.Fatal(err)
		}
		lookedUp := gomlxtest.Must(key.onHost())(t).lookedUp()
		var want []float64
		x, y := e.config.patches()
		for i := range x {
			f := lookedUp(x[i], y[i])
			for k := 0; k < len(f); k++ {
				if key.Kind == deflatedTable {
					want = append(want, math.Tanh(scale*f[k]))
				} else if k%3 == 0 {
					point := weierstrass.Dilated([3]float64(f[k:]), scale)
					want = append(want, point[:]...)
				}
			}
		}
		gomlxtest.Near(t, fmt.Sprint(form), got, want, 2e-6)
	}
}

func TestTable_that_errs_by_little_more_gets_a_tenth_more_nodes(t *testing.T) {
	gomlxtest.OnGo(t)
	key := tableKey{Mode: paper, Omega1: 1.3, Omega3p: 1.7, SpanU: 0.4, SpanV: 0.4, Resolution: 41, Kind: deflatedTable}
	table := gomlxtest.Must(key.onHost())(t)
	worst := table.errorOf(0.15)
	for tolerance, want := range map[float64]int{worst: 41, worst / 1.01: 1 + 44, worst / 4: 1 + 84} { // 40 by 1.1, 2.1
		if got := gomlxtest.Must(table.fit(0.15, tolerance))(t); got.Resolution != want {
			t.Errorf("%d nodes for an error of %g of that of 41, want %d", got.Resolution, tolerance/worst, want)
		}
	}
}

// Where α_scale is so large that features are ±1 but for a line, most errors are 0, and so are their neighbours': the
// search ends nevertheless. On the line Im ℘ is 0.
func TestTable_error_of_features_that_are_1_almost_everywhere_is_found(t *testing.T) {
	gomlxtest.OnGo(t)
	key := tableKey{Mode: paper, Omega1: 1.3, Omega3p: 1.7, SpanU: 0.1, SpanV: 0.1, Resolution: 3, Kind: deflatedTable}
	if worst := gomlxtest.Must(key.onHost())(t).errorOf(1e6); !(math.Abs(worst-1) <= 1e-6) {
		t.Errorf("an error of %g, want that of 1 for 0", worst)
	}
}

func TestTable_whose_error_grew_with_alpha_scale_is_reported_when_it_is_opened(t *testing.T) {
	store, settings := model.NewStore(), []kv{ofTable(deflatedTable, 64),
		ofHalfPeriods(weierstrass.OmegaSquare, 1.085), {paramTableError: 1e-5}}
	opened := func() string {
		e, err := built(store, settings...)
		if err != nil {
			t.Fatal(err)
		}
		return e.Warning()
	}
	opened() // builds the table
	if log := opened(); strings.Contains(log, paramTableError) {
		t.Errorf("a table as it was built: %q", log)
	}
	setValue(t, store, "/wepe/alpha_scale_raw", tensors.FromScalar(float32(softplusInverse(4*defaultAlphaScale))))
	if log := opened(); !strings.Contains(log, paramTableError+" = 1e-05: Encoder.BuildTable") {
		t.Errorf("α_scale four times as large: %q, want a warning that names %s", log, paramTableError)
	}
}
