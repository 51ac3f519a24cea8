// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// On lattices up to five times as long as wide, at positions drawn at random, half of them around the half-periods at
// distances of every order.
func TestTable_says_at_least_95_percent_of_its_worst_error(t *testing.T) {
	for _, omega3p := range []float64{weierstrass.OmegaSquare, 1.4, 3.7, 0.755, 0.5} {
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
			said, err := key.errorOf(c.alphaScale)
			if err != nil {
				t.Fatal(err)
			}
			off, err := key.off(c.alphaScale)
			if err != nil {
				t.Fatal(err)
			}
			random, worst := rand.New(rand.NewPCG(3, 7)), 0.0
			for i := range 20_000 {
				x, y := c.span*random.Float64(), c.span*random.Float64()
				if i%2 == 0 {
					r, way := math.Pow(10, -6*random.Float64()), 2*math.Pi*random.Float64()
					x = min(max(float64(random.IntN(3))/2+r*math.Cos(way), 0), c.span)
					y = min(max(float64(random.IntN(3))/2+r*math.Sin(way), 0), c.span)
				}
				if math.Hypot(math.Mod(x, 1), math.Mod(y, 1)) > 1e-7 { // at a pole itself the guard answers
					worst = max(worst, off(x, y))
				}
			}
			if !(said >= 0.95*worst) || said > 2.0000001 {
				t.Errorf("ω3′ = %g, %+v: says %.4g, errs by %.4g", omega3p, c, said, worst)
			}
		}
	}
}

// The error that the interpolation of the graph has is off's: at the middles of cells, by a table that is built.
func TestTable_error_is_that_of_the_table_built(t *testing.T) {
	key := tableKey{Mode: paper, Omega1: 2.6, Omega3p: 1.4, SpanU: 1, SpanV: 1, Resolution: 17, Kind: sphereTable}
	table := mustTable(t, key)
	off, err := key.off(1)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := key.sphere()
	if err != nil {
		t.Fatal(err)
	}
	for cell := range 16 {
		x, y := (float64(cell)+0.5)/16, (float64(15-cell)+0.25)/16
		want := 0.0
		for i, f := range table.at(16*x, 16*y) {
			want = max(want, math.Abs(f-exact(x, y)[i]))
		}
		if got := off(x, y); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("at (%g, %g): %g, want %g", x, y, got, want)
		}
	}
}

func TestTable_that_errs_more_since_alpha_scale_was_trained_is_reported_where_it_is_opened(t *testing.T) {
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
