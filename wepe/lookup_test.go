// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/checkpoint"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func setValue(t *testing.T, store *model.Store, path string, value *tensors.Tensor) {
	t.Helper()
	gomlxtest.NoError(t, store.GetVariable(path).SetValue(value))
}

// In mode release the table is of the square lattice, over z stretched by ω3′; exact values are ℘'s.
func TestTable_InModeRelease(t *testing.T) {
	var e *encoder
	features := func(evaluation kv) []float64 {
		return run(t, model.NewStore(), onlyIn(func(s *model.Scope, g *Graph) []*Node {
			e = New(s, 5, 7, 2).with(kv{ParamMode: release}, evaluation).encoder()
			return []*Node{e.Features(g)}
		}), float32(0))[0]
	}
	exact := features(kv{byEvaluation: evaluateExact})
	gomlxtest.Near(t, "table", features(byTable), exact, 1e-6)
	gomlxtest.Near(t, "host", exact, slices.Concat(e.config.hostFeatures()...), 1e-6)
}

func TestTable_OfOtherParametersIsConfigError(t *testing.T) {
	store := model.NewStore()
	gomlxtest.Must(built(store, byTable))(t)
	for what, other := range map[string][]kv{
		"span": {byTable, ofSpan(0.4, 0.3)},
		"ω1":   {byTable, {byOmega1: 2.6}},
	} {
		_, err := built(store, other...)
		refused(t, "another "+what, err, "")
	}
	raw, nodes := "/wepe/omega3_raw", "/wepe/table/values"
	was, values := tensors.ToScalar[float32](store.GetVariable(raw).MustValue()),
		gomlxtest.Values(t, store.GetVariable(nodes).MustValue())
	setValue(t, store, raw, tensors.FromScalar(was+1e-4))
	_, err := built(store, byTable)
	refused(t, "another ω3′", err, "")
	setValue(t, store, raw, tensors.FromScalar(was))
	setValue(t, store, nodes, tensors.FromScalarAndDimensions(float32(0), 32, 33, 4))
	_, err = built(store, byTable)
	refused(t, "another shape", err, "")
	setValue(t, store, nodes, filled(values, 256, 256, 4))
	if _, err := built(store, byTable); err != nil {
		t.Errorf("as it was: %v", err)
	}
}

// Long cells need more nodes than a table has.
func TestTable_ThatWouldErrIsConfigError(t *testing.T) {
	for _, c := range []struct {
		omega3 float64
		form   compression
		ok     bool
	}{
		{1.085, compressTanh, true}, {0.3, compressTanh, true}, {0.02, compressTanh, false}, {1000, compressSphere, false},
		{2.8, compressSphere, true}, {20, compressSphere, false}, {0.1, compressSphere, false},
	} {
		_, err := built(model.NewStore(), byTable, kv{ParamOmega3: c.omega3, byCompression: c.form})
		if c.ok != (err == nil) || err != nil && !errors.As(err, new(ConfigError)) {
			t.Errorf("ω3′ = %g, %s: %v", c.omega3, c.form, err)
		}
	}
}

func TestEncoder_WarnsOfTableError(t *testing.T) {
	store, flatter := model.NewStore(), kv{ParamOmega3: 1.085}
	if got := gomlxtest.Must(built(store, byTable, flatter))(t).Warning(); got != "" {
		t.Errorf("a table as it was built: %q", got)
	}
	setValue(t, store, "/wepe/alpha_scale_raw", tensors.FromScalar(float32(softplusInverse(4*defaultAlphaScale))))
	if gomlxtest.Must(built(store, byTable, flatter))(t).Warning() == "" {
		t.Error("no warning for an α_scale four times as large")
	}
}

// Also one of an earlier version, of other sides and with its key.
func TestTable_OpensFromCheckpoint(t *testing.T) {
	dir := t.TempDir()
	features := func(store *model.Store, rows, cols int) []float64 {
		return run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
			return []*Node{New(s, rows, cols, 2).with(byTable).encoder().Features(g)}
		}), float32(0))[0]
	}
	written := model.NewStore()
	handler := gomlxtest.Must(checkpoint.Build(written).Dir(dir).Done())(t)
	old := hostTableOf(t, false, weierstrass.OmegaSquare, weierstrass.OmegaSquare, defaultSpan, defaultSpan, 17)
	values := old.values()
	values[(17*5+5)*4] += 7 // proves that nodes are read
	for path, value := range map[string]*tensors.Tensor{"/wepe/table/values": filled(values, 17, 17, 4),
		"/wepe/table/key": tensors.FromValue(make([]float64, 7))} {
		gomlxtest.Must(written.CreateVariable(path, value))(t)
	}
	before := features(written, 11, 13)
	gomlxtest.NoError(t, handler.Save())
	read := model.NewStore()
	gomlxtest.Must(checkpoint.Load(read).Dir(dir).Done())(t)
	gomlxtest.Near(t, "read again", features(read, 11, 13), before, 0)
	gomlxtest.Near(t, "another grid", features(read, 3, 2), squareGrid(3, 2).features(t), 1e-3)
	if worst := distance(before, squareGrid(11, 13).features(t)); worst < 0.05 {
		t.Errorf("features differ by %g from those without the changed node", worst)
	}
	for _, path := range []string{"omega3_raw", "table/values"} {
		if v := read.GetVariable("/wepe/" + path); v == nil || v.Trainable {
			t.Errorf("%q from a checkpoint: %v, want one that does not train", path, v)
		}
	}
	if v := read.GetVariable("/wepe/table/key"); v != nil {
		t.Errorf("the table's key is still there: %v", v)
	}
}

// Whole periods are those of ℘ only in mode paper, and a truncated sum has none.
func TestOnly_exact_values_on_the_papers_lattice_are_of_the_nearest_period(t *testing.T) {
	for _, c := range []struct {
		mode       mode
		evaluation evaluation
		want       []float64
	}{
		{paper, evaluateExact, []float64{-0.25, 0.25, 0.375}}, {paper, evaluateSum, []float64{0.75, -1.75, 0.375}},
		{release, evaluateSum, []float64{0.75, -1.75, 0.375}},
	} {
		e := gomlxtest.Must(built(model.NewStore(), kv{ParamMode: c.mode, byEvaluation: c.evaluation}))(t)
		gomlxtest.NearAbs(t, fmt.Sprint(c.mode, c.evaluation), e.reduced([]float64{0.75, -1.75, 0.375}), c.want, 0)
	}
}
