// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

// For the raw kind only the graph is tested: the nodes around the pole dominate its error.
func TestTable_in_release_mode_is_the_exact_form_and_a_raw_one_is_that_of_the_host(t *testing.T) {
	features := func(settings ...kv) []float64 {
		return run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
			return []*Node{New(s, 5, 7, 2).with(settings...).Done().Features(g)}
		}), float32(0))[0]
	}
	release := kv{"wepe_mode": release}
	gomlxtest.Near(t, "release", features(release, ofTable(deflatedTable, 256)), features(release,
		kv{paramEvaluation: evaluateExact}),
		1e-6)
	at := tableAt(t, tableKey{Mode: paper, Omega1: weierstrass.OmegaSquare, Omega3p: weierstrass.OmegaSquare,
		SpanU: defaultSpan, SpanV: defaultSpan, Resolution: 33, Kind: rawTable})
	var want []float64
	u, v := grid{rows: 5, cols: 7}.centres()
	for k := range u {
		p, pPrime := at(u[k], v[k])
		for _, f := range []float64{real(p), imag(p), real(pPrime), imag(pPrime)} {
			want = append(want, math.Tanh(defaultAlphaScale*f))
		}
	}
	gomlxtest.Near(t, "raw", features(ofTable(rawTable, 33)), want, 1e-5)
}

func setValue(t *testing.T, store *model.Store, path string, value *tensors.Tensor) {
	t.Helper()
	if err := store.GetVariable(path).SetValue(value); err != nil {
		t.Fatal(err)
	}
}

func TestTable_of_other_parameters_is_refused_until_it_is_built_anew(t *testing.T) {
	store, table := model.NewStore(), ofTable(deflatedTable, 33)
	if _, err := built(store, table); err != nil {
		t.Fatal(err)
	}
	for what, other := range map[string][]kv{
		"resolution": {ofTable(deflatedTable, 34)},
		"kind":       {ofTable(rawTable, 33)},
		"span":       {table, ofSpan(0.4, 0.3)},
		"ω1":         {table, ofHalfPeriods(2.6, 0)},
		"mode":       {table, {"wepe_mode": release}},
	} {
		_, err := built(store, other...)
		refused(t, "another "+what, err, "wepe: ")
	}
	refused(t, "another dtype", exceptions.TryCatch[error](func() {
		c := New(store.RootScope(), 3, 5, 2).with(table)
		c.dtype = dtypes.Float64
		c.Done()
	}), `variable "/wepe/omega3_raw" is (Float32), the model wants (Float64)`)

	raw := store.GetVariable("/wepe/omega3_raw")
	next := math.Nextafter32(tensors.ToScalar[float32](raw.MustValue()), 10)
	setValue(t, store, raw.Path(), tensors.FromScalar(next))
	_, err := built(store, table)
	refused(t, "ω3′ one float32 further", err, "call Encoder.BuildTable")
	e, err := built(store, kv{paramEvaluation: evaluateExact, "wepe_table_resolution": 33, paramTableError: 2})
	if err == nil {
		err = e.BuildTable()
	}
	if err == nil {
		_, err = built(store, table)
	}
	if err != nil {
		t.Errorf("after BuildTable: %v", err)
	}
	setValue(t, store, "/wepe/table/values", tensors.FromScalarAndDimensions(float32(0), 32, 33, 4))
	_, err = built(store, table)
	refused(t, "nodes of another shape than the key's", err, "[32, 33, 4]")
}

func TestTable_and_its_key_travel_in_a_checkpoint_to_any_grid_and_hold_the_lattice_fixed(t *testing.T) {
	dir := t.TempDir()
	features := func(store *model.Store, rows, cols int) []float64 {
		return run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
			return []*Node{New(s, rows, cols, 2).with(ofTable(deflatedTable, 17)).Done().Features(g)}
		}), float32(0))[0]
	}
	written := model.NewStore()
	handler, err := checkpoint.Build(written).Dir(dir).Done()
	if err != nil {
		t.Fatal(err)
	}
	features(written, 3, 5)
	// Nodes of 0 prove that they are read, not recomputed: the pole remains.
	setValue(t, written, "/wepe/table/values", tensors.FromScalarAndDimensions(float32(0), 17, 17, 4))
	if err := handler.Save(); err != nil {
		t.Fatal(err)
	}
	read := model.NewStore()
	if _, err := checkpoint.Load(read).Dir(dir).Done(); err != nil {
		t.Fatal(err)
	}
	for _, host := range []hostGrid{squareGrid(3, 5), squareGrid(11, 2)} {
		var want []float64
		for _, z := range host.points() {
			for _, f := range []complex128{1 / (z * z), -2 / (z * z * z)} {
				want = append(want, math.Tanh(defaultAlphaScale*real(f)), math.Tanh(defaultAlphaScale*imag(f)))
			}
		}
		gomlxtest.Near(t, fmt.Sprint(host), features(read, host.rows, host.cols), want, 1e-6)
	}
	for _, path := range []string{"omega3_raw", "table/" + nameTableKey, "table/" + nameTableValues} {
		if v := read.GetVariable("/wepe/" + path); v == nil || v.Trainable {
			t.Errorf("%q out of a checkpoint: %v, want one that does not train", path, v)
		}
	}
	_, err = built(read, ofTable(deflatedTable, 18))
	refused(t, "more nodes than the checkpoint has", err, "the table in")
}

func TestA_position_is_between_two_nodes_and_beyond_them_at_the_nearest(t *testing.T) {
	for x, want := range map[float64]struct {
		index    int
		distance float64
	}{-0.5: {0, 0}, 0: {0, 0}, 2.25: {2, 0.25}, 3: {3, 0}, 3.75: {3, 0.75}, 4: {3, 1}, 4.5: {3, 1}} {
		if index, distance := nodeBefore(x, 5); index != want.index || distance != want.distance {
			t.Errorf("%g of 5 nodes is %g behind node %d, want %g behind %d", x, distance, index, want.distance, want.index)
		}
	}
	for x, want := range map[float64]struct {
		t         float64
		distances [2]float64
	}{-0.25: {0.75, [2]float64{0.75, -0.25}}, 0: {0, [2]float64{0, -1}}, 0.25: {0.25, [2]float64{0.25, -0.75}}} {
		if at, distances := cellOffsets(x); at != want.t || distances != want.distances {
			t.Errorf("%g is at %g, %v from the ends, want %g, %v", x, at, distances, want.t, want.distances)
		}
	}
}

// A pole belongs to a table that goes beyond the middle between it and the next.
func TestTable_omits_the_poles_that_are_nearest_to_a_part_of_it(t *testing.T) {
	for _, c := range []struct {
		kind tableKind
		u, v float64
		want string
	}{
		{deflatedTable, 0.4, 0.5, "[[0 0]]"}, {deflatedTable, 0.5, 0.4, "[[0 0]]"},
		{deflatedTable, 0.51, 0.5, "[[0 0] [1 0]]"}, {deflatedTable, 0.5, 0.51, "[[0 0] [0 1]]"},
		{deflatedTable, 1, 3, "[[0 0] [1 0] [0 1] [1 1]]"}, {rawTable, 1, 1, "[]"},
	} {
		key := tableKey{Mode: paper, Omega1: 1.3, Omega3p: 1.7, SpanU: c.u, SpanV: c.v, Kind: c.kind}
		if got := fmt.Sprint(key.poles()); got != c.want {
			t.Errorf("%s, %g × %g periods: %s, want %s", c.kind, c.u, c.v, got, c.want)
		}
		if u, v := key.extents(); u != min(c.u, 1) || v != min(c.v, 1) { // one period at most
			t.Errorf("%g × %g periods: the table has %g × %g", c.u, c.v, u, v)
		}
	}
}

// Nearer to the pole than the radius r, 2⁻²⁴·2/π of the shorter half-period, 1/z is z̄/r².
func TestTable_guards_its_pole_by_the_shorter_half_period(t *testing.T) {
	for _, half := range [][2]float64{{1.3, 1.7}, {1.7, 1.3}} {
		key := tableKey{Mode: paper, Omega1: half[0], Omega3p: half[1], SpanU: 0.4, SpanV: 0.4, Kind: deflatedTable}
		r := 1.3 * 2 / math.Pi * 0x1p-24
		p, pPrime := key.principalParts([2]float64{r / 2 / (2 * half[0]), 1}, [2]float64{0, 1})
		gomlxtest.NearAbs(t, fmt.Sprint(half), []float64{real(p) * r * r, imag(p), real(pPrime) * r * r * r, imag(pPrime)},
			[]float64{0.25, 0, -0.25, 0}, 1e-12)
	}
}

func TestTable_of_a_lattice_without_size_is_not_built(t *testing.T) {
	store, table := model.NewStore(), ofTable(deflatedTable, 17)
	e, err := built(store, table)
	if err != nil {
		t.Fatal(err)
	}
	setValue(t, store, "/wepe/omega3_raw", tensors.FromScalar(float32(math.NaN())))
	refused(t, "NaN", e.BuildTable(), "wepe: table: ")
	_, err = built(store, table)
	refused(t, "NaN", err, "call Encoder.BuildTable")
}

// Also of an encoder that does not open it.
func TestTable_does_not_train(t *testing.T) {
	store := model.NewStore()
	e, err := built(store, kv{paramEvaluation: evaluateExact, "wepe_table_resolution": 5, paramTableError: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.BuildTable(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{nameTableKey, nameTableValues} {
		if v := store.GetVariable("/wepe/table/" + name); v == nil || v.Trainable {
			t.Errorf("%s: %v, want one that does not train", name, v)
		}
	}
}

// Whole periods are those of ℘ only in mode paper, and a truncated sum has none.
func TestOnly_exact_values_on_the_papers_lattice_are_of_the_nearest_period(t *testing.T) {
	for _, c := range []struct {
		mode       mode
		evaluation string
		want       []float64
	}{
		{paper, evaluateExact, []float64{-0.25, 0.25, 0.375}}, {paper, evaluateSum, []float64{0.75, -1.75, 0.375}},
		{release, evaluateExact, []float64{0.75, -1.75, 0.375}}, {release, evaluateSum, []float64{0.75, -1.75, 0.375}},
	} {
		e, err := built(model.NewStore(), kv{"wepe_mode": c.mode, paramEvaluation: c.evaluation})
		if err != nil {
			t.Fatal(err)
		}
		gomlxtest.NearAbs(t, fmt.Sprint(c.mode, c.evaluation), e.reduced([]float64{0.75, -1.75, 0.375}), c.want, 0)
	}
}
