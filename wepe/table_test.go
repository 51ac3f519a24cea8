// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// tableErrors are the figures of lut.json for one set of query points.
type tableErrors struct {
	FMax       float64 `json:"f_max"`
	FMean      float64 `json:"f_mean"`
	PRelMax    float64 `json:"wp_rel_max"`
	PRelMean   float64 `json:"wp_rel_mean"`
	PPRelMax   float64 `json:"wpp_rel_max"`
	PPRelMean  float64 `json:"wpp_rel_mean"`
	PAbsMedian float64 `json:"wp_abs_median"`
}

// tableAt returns ℘ and ℘′ from a table at u, v in [0, 1].
func tableAt(t testing.TB, key tableKey) func(u, v float64) (p, pPrime complex128) {
	t.Helper()
	lookedUp := gomlxtest.Must(key.onHost())(t).lookedUp()
	perU, perV := key.periods()
	return func(u, v float64) (p, pPrime complex128) {
		f := lookedUp(u*perU-math.Floor(u*perU), v*perV-math.Floor(v*perV))
		return complex(f[0], f[1]), complex(f[2], f[3])
	}
}

// errorsOf compares a table with the exact functions at the given points.
func errorsOf(t *testing.T, key tableKey, alphaScale float64, u, v []float64) (e tableErrors) {
	t.Helper()
	lattice, err := weierstrass.NewLattice(key.halfPeriods())
	if err != nil {
		t.Fatal(err)
	}
	at, abs := tableAt(t, key), make([]float64, len(u))
	for i := range u {
		p, pPrime := at(u[i], v[i])
		want, wantPrime := lattice.Eval(complex(key.SpanU*u[i]*2*key.Omega1, key.SpanV*v[i]*2*key.Omega3p))
		for _, f := range [][2]float64{{real(p), real(want)}, {imag(p), imag(want)}, {real(pPrime), real(wantPrime)},
			{imag(pPrime), imag(wantPrime)}} {
			d := math.Abs(math.Tanh(alphaScale*f[0]) - math.Tanh(alphaScale*f[1]))
			e.FMax = max(e.FMax, d)
			e.FMean += d / float64(4*len(u))
		}
		rel := cmplx.Abs(p-want) / cmplx.Abs(want)
		relPrime := cmplx.Abs(pPrime-wantPrime) / cmplx.Abs(wantPrime)
		e.PRelMax, e.PRelMean = max(e.PRelMax, rel), e.PRelMean+rel/float64(len(u))
		e.PPRelMax, e.PPRelMean = max(e.PPRelMax, relPrime), e.PPRelMean+relPrime/float64(len(u))
		abs[i] = cmplx.Abs(p - want)
	}
	slices.Sort(abs)
	e.PAbsMedian = abs[len(abs)/2]
	return e
}

// randomPoints are n points of (0, 1)² at least margin from its borders.
func randomPoints(n int, margin float64) (u, v []float64) {
	r := rand.New(rand.NewPCG(7, 11))
	for range n {
		u = append(u, margin+(1-2*margin)*r.Float64())
		v = append(v, margin+(1-2*margin)*r.Float64())
	}
	return u, v
}

// The tables of lut.json that exist here: deflated by the origin for spans below half a period and by the four corners
// for a whole one, and the raw table, whose pole nodes differ but touch no query of the rows compared.
func TestTable_errors_are_those_of_the_reference_at_every_resolution(t *testing.T) {
	fixtures.Each(t, testTable_errors_are_those_of_the_reference_at_every_resolution)
}

func testTable_errors_are_those_of_the_reference_at_every_resolution(t *testing.T) {
	var invariants struct {
		Lattices []struct {
			Lattice         string
			Omega1, Omega3p float64
		}
	}
	fixtures.JSON(t, "weierstrass", "invariants.json", &invariants)
	lattices := make(map[string][2]float64)
	for _, l := range invariants.Lattices {
		lattices[l.Lattice] = [2]float64{l.Omega1, l.Omega3p}
	}
	var file struct {
		AlphaScale float64 `json:"alpha_scale"`
		Rows       []struct {
			Lattice, Table, Query string
			Alpha                 float64
			R                     int
			Hits                  int `json:"corner_cell_hits"`
			tableErrors
		}
	}
	fixtures.JSON(t, "weierstrass", "lut.json", &file)
	queried := make(map[string]tableErrors)
	compared := 0
	for _, row := range file.Rows {
		var kind tableKind
		switch {
		case strings.HasPrefix(row.Table, "raw"):
			kind = rawTable
		case row.Table == "deflated_origin" && row.Alpha <= 0.5, row.Table == "deflated_four_corners":
			kind = deflatedTable
		default: // the origin alone at α = 1, and a table of compressed features: not supported
			continue
		}
		if kind == rawTable && row.Hits > 0 {
			continue
		}
		half, ok := lattices[row.Lattice]
		if !ok {
			t.Fatalf("no half-periods for lattice %q in invariants.json", row.Lattice)
		}
		key := tableKey{Mode: paper, Omega1: half[0], Omega3p: half[1], SpanU: row.Alpha, SpanV: row.Alpha,
			Resolution: row.R, Kind: kind}
		name := fmt.Sprintf("%s, α %g, R %d, %s, query %s", row.Lattice, row.Alpha, row.R, kind, row.Query)
		size, err := strconv.Atoi(row.Query)
		random := err != nil
		got, ok := queried[name]
		if !ok {
			var u, v []float64
			if random { // "random_in_14x14_hull"
				side, err := strconv.Atoi(strings.Split(strings.Split(row.Query, "_")[2], "x")[0])
				if err != nil {
					t.Fatalf("query %q: %v", row.Query, err)
				}
				u, v = randomPoints(2000, 0.5/float64(side))
			}
			x, y := grid{rows: size, cols: size}.centres()
			u, v = append(u, x...), append(v, y...)
			got = errorsOf(t, key, file.AlphaScale, u, v)
			queried[name] = got
		}
		compared++
		if random {
			// The points differ from the reference's, and a few of them next to the pole dominate the mean: the median over 2000
			// points is within five of its deviations, 1/√2000 of the ranks, a quarter of its value.
			if ratio := got.PAbsMedian / row.PAbsMedian; !(ratio > 0.75 && ratio < 1.33) {
				t.Errorf("%s: median error of ℘ %.3g, the reference's %.3g", name, got.PAbsMedian, row.PAbsMedian)
			}
			continue
		}
		pairs := map[string][2]float64{"f max": {got.FMax, row.FMax}, "f mean": {got.FMean, row.FMean}}
		// A patch on a zero of ℘ or ℘′ has a relative error that is noise.
		if row.PRelMax < 0.1 {
			pairs["℘ max"], pairs["℘ mean"] = [2]float64{got.PRelMax, row.PRelMax}, [2]float64{got.PRelMean, row.PRelMean}
		}
		if row.PPRelMax < 0.1 {
			pairs["℘′ max"] = [2]float64{got.PPRelMax, row.PPRelMax}
			pairs["℘′ mean"] = [2]float64{got.PPRelMean, row.PPRelMean}
		}
		for what, pair := range pairs {
			if !(math.Abs(pair[0]-pair[1]) <= 1e-3*pair[1]+1e-13) {
				t.Errorf("%s: %s error %.6g, the reference's %.6g", name, what, pair[0], pair[1])
			}
		}
	}
	if compared == 0 {
		t.Fatal("lut.json has no row of a table that exists here")
	}
	t.Logf("%d rows, %d sets of queries", compared, len(queried))
}

// From the square lattice to one for which no table suffices; 0.755 is the release's initial ω3′.
func TestDeflated_table_knows_its_error_and_takes_the_nodes_it_needs_or_refuses(t *testing.T) {
	u, v := randomPoints(20000, 0)
	for _, c := range []struct {
		omega3     float64
		resolution int     // for defaultTableError; 0 if none is enough
		at256      float64 // the error of 256 nodes, to a factor of 2
	}{
		{weierstrass.OmegaSquare, 256, 8e-8}, {0.755, 420, 1.6e-5}, {0.3, 2600, 6.5e-4}, {0.05, 0, 1},
	} {
		key := tableKey{Mode: paper, Omega1: weierstrass.OmegaSquare, Omega3p: c.omega3, SpanU: defaultSpan,
			SpanV: defaultSpan, Resolution: 256, Kind: deflatedTable}
		table := gomlxtest.Must(key.onHost())(t)
		said := table.errorOf(defaultAlphaScale)
		measured := errorsOf(t, key, defaultAlphaScale, u, v).FMax
		if said > 2*c.at256 || said < c.at256/2 || measured > 1.05*said || measured < 0.4*said {
			t.Errorf("ω3′ = %g: 256 nodes err by %.3g at random points and say %.3g, want about %.2g", c.omega3, measured,
				said, c.at256)
		}
		fitted, err := table.fit(defaultAlphaScale, defaultTableError)
		if c.resolution == 0 {
			if err == nil || !strings.Contains(err.Error(), "wepe_table_error = 1e-05") {
				t.Errorf("ω3′ = %g: %d nodes, error %v, want a refusal by name", c.omega3, fitted.Resolution, err)
			}
			continue
		}
		measured, said = errorsOf(t, fitted.tableKey, defaultAlphaScale, u, v).FMax, fitted.errorOf(defaultAlphaScale)
		if err != nil || fitted.Resolution > c.resolution || said > defaultTableError || measured > 1.05*said {
			t.Errorf("ω3′ = %g: %d nodes err by %.3g and say %.3g, %v", c.omega3, fitted.Resolution, measured, said, err)
		}
	}
}

func TestTable_is_exact_at_its_nodes_for_every_span_and_mode(t *testing.T) {
	for _, key := range []tableKey{
		{Mode: paper, Omega1: 2.6, Omega3p: 1.1, SpanU: 0.4, SpanV: 0.7},
		{Mode: paper, Omega1: 0.7, Omega3p: 2.3, SpanU: 1.2, SpanV: 0.3}, // one cell suffices for a longer span
		{Mode: release, Omega1: 2.6, Omega3p: 7.9, SpanU: 0.4, SpanV: 0.3},
	} {
		for _, kind := range []tableKind{deflatedTable, rawTable} {
			key.Resolution, key.Kind = 11, kind
			at := tableAt(t, key)
			if pole := gomlxtest.Must(key.onHost())(t).at(0, 0); kind == rawTable &&
				!slices.Equal(pole, []float64{500, 0, 500, 0}) {
				t.Errorf("%+v: the node at the pole holds %v, want C_large of the release", key, pole)
			}
			a, b := key.halfPeriods()
			lattice, err := weierstrass.NewLattice(a, b)
			if err != nil {
				t.Fatal(err)
			}
			extU, extV := key.extents()
			perU, perV := key.periods()
			for col := 1; col < key.Resolution-1; col++ {
				for row := 1; row < key.Resolution-1; row++ {
					x, y := extU*float64(col)/10, extV*float64(row)/10 // in periods
					want, wantPrime := lattice.Eval(complex(x*2*a, y*2*b))
					for cells := 0.0; x+cells <= perU; cells++ {
						p, pPrime := at((x+cells)/perU, y/perV)
						if cmplx.Abs(p-want) > 1e-11*(1+cmplx.Abs(want)) ||
							cmplx.Abs(pPrime-wantPrime) > 1e-11*(1+cmplx.Abs(wantPrime)) {
							t.Fatalf("%+v at node (%d, %d): %g, %g, want %g, %g", key, col, row, p, pPrime, want,
								wantPrime)
						}
					}
				}
			}
		}
	}
}
