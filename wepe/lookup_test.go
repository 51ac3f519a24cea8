// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"strings"
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

// onlyIn returns the graph of one output that needs no input but the graph itself.
func onlyIn(build func(s *model.Scope, g *Graph) []*Node) func(*model.Scope, []*Node) []*Node {
	return func(s *model.Scope, in []*Node) []*Node { return build(s, in[0].Graph()) }
}

func floats32(x []float64) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(x[i])
	}
	return out
}

// At the grids of lut.json, for which table_test.go compares tables of either kind on the host.
func TestTable_of_256_nodes_misses_no_feature_of_a_patch_by_more_than_1e_7(t *testing.T) {
	bounds := map[dtypes.DType]float64{dtypes.Float32: 5e-7} // of which 4e-7 for the tanh of other backends
	if float64Runs(t) {
		bounds[dtypes.Float64] = 1e-7
	}
	for _, size := range []int{14, 24, 37, 64} {
		for dtype, bound := range bounds {
			host := squareGrid(size, size)
			var own map[string]float64 // the square lattice and 0.15, rounded by the softplus of a float32
			got := run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
				c := New(s, size, size, 2).with(ofTable(Deflated, DefaultTableResolution))
				c.dtype = dtype
				e := c.Done()
				own, _ = e.Scalars()
				return []*Node{e.Features(g)}
			}), float32(0))
			host.omega3 = complex(0, own["omega3"])
			worst := distance(got[0], host.features(t, own["alpha_scale"]))
			t.Logf("%d×%d, %s: largest error %.3g", size, size, dtype, worst)
			if !(worst <= bound) {
				t.Errorf("%d×%d, %s: error %.3g, want at most %.3g", size, size, dtype, worst, bound)
			}
		}
	}
}

// Of the raw kind only the graph is of interest: its own error is that of the nodes around the pole.
func TestTable_in_release_mode_is_the_exact_form_and_a_raw_one_is_that_of_the_host(t *testing.T) {
	features := func(settings ...kv) []float64 {
		return run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
			return []*Node{New(s, 5, 7, 2).with(settings...).Done().Features(g)}
		}), float32(0))[0]
	}
	release := kv{ParamMode: Release}
	gomlxtest.Near(t, "release", features(release, ofTable(Deflated, 256)), features(release, kv{ParamEvaluation: EvaluateExact}),
		1e-6)
	table := mustTable(t, TableKey{Mode: Paper, Omega1: weierstrass.OmegaSquare, Omega3p: weierstrass.OmegaSquare,
		SpanU: DefaultSpan, SpanV: DefaultSpan, Resolution: 33, Kind: Raw})
	var want []float64
	for k := range 5 * 7 {
		p, pPrime := table.P(grid{rows: 5, cols: 7}.centre(k))
		for _, f := range []float64{real(p), imag(p), real(pPrime), imag(pPrime)} {
			want = append(want, math.Tanh(DefaultAlphaScale*f))
		}
	}
	gomlxtest.Near(t, "raw", features(ofTable(Raw, 33)), want, 1e-5)
}

func TestTable_serves_any_grid_of_a_model_and_holds_the_lattice_fixed(t *testing.T) {
	store := model.NewStore()
	for _, size := range [][2]int{{3, 5}, {11, 2}} {
		got := run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
			e := New(s, size[0], size[1], 2).with(ofTable(Deflated, 256)).Done()
			if e.omega3.Trainable {
				t.Error("ω3′ is trainable beside a table that does not follow it")
			}
			return []*Node{e.Features(g)}
		}), float32(0))
		want := squareGrid(size[0], size[1]).features(t, DefaultAlphaScale)
		gomlxtest.Near(t, fmt.Sprint(size), got[0], want, 1e-6)
	}
	for _, name := range []string{nameTableKey, nameTableValues} {
		if v := store.GetVariable("/wepe/table/" + name); v == nil || v.Trainable {
			t.Errorf("variable %q: %v, want one that is not trainable", name, v)
		}
	}
}

func setValue(t *testing.T, v *model.Variable, value *tensors.Tensor) {
	t.Helper()
	if err := v.SetValue(value); err != nil {
		t.Fatal(err)
	}
}

func TestTable_of_other_parameters_is_refused_until_it_is_built_anew(t *testing.T) {
	store := model.NewStore()
	table := func(c *Config) *Config {
		return c.with(ofTable(Deflated, 33))
	}
	build := func(config func(*Config) *Config) (e *Encoder, err error) {
		err = exceptions.TryCatch[error](func() { e = config(New(store.RootScope(), 3, 5, 2)).Done() })
		return e, err
	}
	if _, err := build(table); err != nil {
		t.Fatal(err)
	}
	for what, config := range map[string]func(*Config) *Config{
		"resolution": func(c *Config) *Config {
			return c.with(ofTable(Deflated, 34))
		},
		"kind": func(c *Config) *Config {
			return c.with(ofTable(Raw, 33))
		},
		"span": func(c *Config) *Config { return table(c).with(ofSpan(0.4, 0.3)) },
		"ω1":   func(c *Config) *Config { return table(c).with(ofHalfPeriods(2.6, 0)) },
		"mode": func(c *Config) *Config { return table(c).with(kv{ParamMode: Release}) },
	} {
		if _, err := build(config); err == nil || !strings.Contains(err.Error(), "wepe: ") {
			t.Errorf("another %s: error %v, want a refusal", what, err)
		}
	}
	_, err := build(func(c *Config) *Config { c = table(c); c.dtype = dtypes.Float64; return c })
	const want = `variable "/wepe/omega3_raw" is (Float32), the model wants (Float64)`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another dtype: error %v, want a refusal", err)
	}

	raw := store.GetVariable("/wepe/omega3_raw")
	next := math.Nextafter32(tensors.ToScalar[float32](raw.MustValue()), 10)
	setValue(t, raw, tensors.FromScalar(next))
	if _, err := build(table); err == nil || !strings.Contains(err.Error(), "call Encoder.BuildTable") {
		t.Errorf("ω3′ one float32 further: error %v, want a refusal", err)
	}
	e, err := build(func(c *Config) *Config { return c.with(kv{ParamEvaluation: EvaluateExact}) })
	if err != nil {
		t.Fatal(err)
	}
	e.config.tableResolution = 33
	if err := e.BuildTable(); err != nil {
		t.Fatal(err)
	}
	if _, err := build(table); err != nil {
		t.Errorf("after BuildTable: %v", err)
	}
	values := store.GetVariable("/wepe/table/values")
	setValue(t, values, tensors.FromScalarAndDimensions(float32(0), 32, 33, 4))
	if _, err := build(table); err == nil || !strings.Contains(err.Error(), "[32, 33, 4]") {
		t.Errorf("nodes of another shape than the key's: error %v, want a refusal", err)
	}
}

func TestTable_of_an_oblique_lattice_or_of_several_is_refused(t *testing.T) {
	for _, config := range []func(*Config) *Config{
		func(c *Config) *Config { return c.with(ofOblique(0.3, false)) },
		func(c *Config) *Config { return c.with(ofScales(2, 2)) },
	} {
		if err := config(New(model.NewStore().RootScope(), 3, 5, 2)).Done().BuildTable(); err == nil ||
			!strings.Contains(err.Error(), "single rectangular lattice") {
			t.Errorf("BuildTable: error %v, want a refusal", err)
		}
		if err := exceptions.TryCatch[error](func() {
			config(New(model.NewStore().RootScope(), 3, 5, 2)).with(ofTable(Deflated, 8)).Done()
		}); err == nil {
			t.Error("UseTable: no refusal")
		}
	}
}

func TestTable_and_its_key_travel_in_a_checkpoint(t *testing.T) {
	dir := t.TempDir()
	features := func(store *model.Store, resolution int) (out []float64, err error) {
		err = exceptions.TryCatch[error](func() {
			out = run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
				return []*Node{New(s, 3, 5, 2).with(ofTable(Deflated, resolution)).Done().Features(g)}
			}), float32(0))[0]
		})
		return out, err
	}
	written := model.NewStore()
	handler, err := checkpoint.Build(written).Dir(dir).Done()
	if err != nil {
		t.Fatal(err)
	}
	want, err := features(written, 17)
	if err != nil {
		t.Fatal(err)
	}
	// A mark in the nodes shows that they are read, not computed again.
	values := written.GetVariable("/wepe/table/values")
	marked := tensors.FromScalarAndDimensions(float32(0.25), 17, 17, 4)
	setValue(t, values, marked)
	if err := handler.Save(); err != nil {
		t.Fatal(err)
	}
	read := func() *model.Store {
		store := model.NewStore()
		if _, err := checkpoint.Load(store).Dir(dir).Done(); err != nil {
			t.Fatal(err)
		}
		return store
	}
	got, err := features(read(), 17)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got[len(got)-1]-want[len(want)-1]) < 1e-3 {
		t.Error("the table was built anew, want the one in the checkpoint")
	}
	store := read()
	run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
		return []*Node{New(s, 3, 5, 2).with(ofTable(Deflated, 17)).Done().Encode(g)}
	}), float32(0))
	for _, name := range []string{nameTableKey, nameTableValues} {
		if store.GetVariable("/wepe/table/" + name).Trainable {
			t.Errorf("%q out of a checkpoint is trainable", name)
		}
	}
	if err := exceptions.TryCatch[error](func() {
		New(read().RootScope(), 3, 5, 2).with(ofTable(Deflated, 18)).Done()
	}); err == nil || !strings.Contains(err.Error(), "the table in") {
		t.Errorf("more nodes than the checkpoint has: error %v, want a refusal", err)
	}
}
