// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/wepe/weierstrass"
)

func TestEncoder_CoarserGridHasMeans(t *testing.T) {
	const width, prefix = 6, 2
	encoded := func(store *model.Store, rows, cols int, settings ...kv) []float64 {
		return run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
			if settings[0]["field"] != nil { // without a prefix
				of := New(s, rows, cols, width).OnSphere().with(settings[1:]...).Field().Features(g)
				return []*Node{Concatenate([]*Node{Zeros(g, shapes.Make(of.DType(), prefix, width)), of}, 0)}
			}
			return []*Node{New(s, rows, cols, width).WithPrefix(prefix).with(settings...).encoder().Encode(g)}
		}), float32(0))[0]
	}
	forms := map[string]kv{
		"tanh": {}, "sphere": {byCompression: compressSphere, ParamAlphaU: 0.9, ParamAlphaV: 0.8},
		"mlp": {byCompression: compressSphere, ParamProjection: mlp}, "table": byTable, "field": {"field": true},
		"lut": {byCompression: compressSphere, byEvaluation: evaluateTable},
	}
	for i, c := range []struct{ trained, opened, denser [2]int }{
		{[2]int{6, 10}, [2]int{3, 5}, [2]int{6, 10}}, // a patch is two by two
		{[2]int{7, 5}, [2]int{3, 5}, [2]int{9, 5}},   // 7/3 is more than 2
		{[2]int{7, 5}, [2]int{1, 7}, [2]int{7, 7}},   // coarser one way, finer the other
		{[2]int{3, 5}, [2]int{7, 11}, [2]int{7, 11}}, // finer: nothing to average
		{[2]int{0, 0}, [2]int{3, 2}, [2]int{3, 2}},   // as trained
	} {
		for _, name := range gomlxtest.InTurn(i, slices.Sorted(maps.Keys(forms))...) {
			store := model.NewStore()
			dense := encoded(store, c.denser[0], c.denser[1], forms[name])
			rows, cols := c.opened[0], c.opened[1]
			down, across := c.denser[0]/rows, c.denser[1]/cols
			want := slices.Clone(dense[:prefix*width])
			for k := range rows * cols {
				for i := range width {
					var sum float64
					for n := range down * across {
						row, col := k/cols*down+n/across, k%cols*across+n%across
						sum += dense[(prefix+row*c.denser[1]+col)*width+i]
					}
					want = append(want, sum/float64(down*across))
				}
			}
			got := encoded(store, rows, cols, forms[name], kv{ParamRows: c.trained[0], ParamCols: c.trained[1]})
			gomlxtest.Near(t, fmt.Sprintf("%s, %v opened at %v", name, c.trained, c.opened), got, want, 2e-6)
		}
	}
}

// A shift translates the whole grid by at most the given number of patches, drawn anew each time, without moving
// patches against each other, and only in training. A grid with half of the rows and columns of training moves by its
// own patches.
func TestShift_MovesPatchesAlikeInTraining(t *testing.T) {
	t.Run("trained", func(t *testing.T) { testShift(t, 1) })
	t.Run("coarser", func(t *testing.T) { testShift(t, 2) })
}

func testShift(t *testing.T, denser int) {
	const rows, cols, shift, omega3, harmonics, draws = 3, 5, 0.3, 2.1, 2, 31
	store := gomlxtest.Seeded(t, 1)
	places := func(training bool) [][]float64 {
		return run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
			e := New(s, rows, cols, 4).OnSphere().with(kv{ParamShift: shift, ParamOmega3: omega3, ParamAlphaV: 0.7,
				ParamHarmonics: harmonics, ParamRows: denser * rows, ParamCols: denser * cols}).encoder()
			s.Store().SetTraining(g, training)
			x, y := e.config.patches(e.config.denser())
			z := e.viewed(g, x, y).z
			return []*Node{z.Re, z.Im}
		}), float32(0))
	}
	still := places(false)
	seen := map[float64]bool{}
	ratios := map[float64]bool{} // of the steps along the axes, which are drawn apart
	var least, most [2]float64   // in patches
	for range draws {
		moved := places(true)
		floats.Sub(moved[0], still[0])
		floats.Sub(moved[1], still[1])
		dx, dy := moved[0][0], moved[1][0]
		seen[dx], seen[dy] = true, true
		ratios[math.Round(1e3*dx/dy)] = true
		for axis, step := range [2]float64{dx / (2 * weierstrass.OmegaSquare / cols), dy / (0.7 * 2 * omega3 / rows)} {
			least[axis], most[axis] = min(least[axis], step), max(most[axis], step)
		}
		var x, y []float64
		for n := range harmonics { // 2z moves twice as far
			points := denser * denser * rows * cols
			x = append(x, slices.Repeat([]float64{float64(n+1) * dx}, points)...)
			y = append(y, slices.Repeat([]float64{float64(n+1) * dy}, points)...)
		}
		gomlxtest.NearAbs(t, "steps along x", moved[0], x, 2e-6)
		gomlxtest.NearAbs(t, "steps along y", moved[1], y, 2e-6)
	}
	is.Equal(t, "different steps", len(seen), 2*draws)
	is.Equal(t, "in different directions", len(ratios) > draws/2, true)
	for axis := range least { // 31 uniform draws all lie above -0.7 of the bound with a probability of .7 %
		if !(least[axis] >= -shift && least[axis] <= -0.7*shift && most[axis] >= 0.7*shift && most[axis] <= shift) {
			t.Errorf("axis %d: moved by %g to %g patches, want most of ±%g", axis, least[axis], most[axis], shift)
		}
	}
	gomlxtest.Near(t, "not training", places(false)[0], still[0], 0)
}

// The distances are those of the documents, for the default lattice; the pair is the closest of all.
func TestEncoder_WarnsOfPatchesThatFloat32CannotDistinguish(t *testing.T) {
	sphere := kv{byCompression: compressSphere, ParamAlphaScale: 1e6}
	for _, c := range []struct {
		rows, cols int
		params     kv
		low, high  float64
		advice     string
	}{
		{14, 14, nil, 4.0e-3, 4.1e-3, ""}, {24, 24, nil, 3.2e-4, 3.3e-4, ""},
		{37, 37, nil, 1.9e-9, 2.0e-9, "a smaller " + ParamAlphaScale},
		{64, 64, nil, 0, 1e-13, "a smaller " + ParamAlphaScale}, {64, 64, kv{ParamAlphaScale: 1e-3}, tooClose, 1, ""},
		{14, 14, kv{ParamArea: 1e4}, 2e-7, 4e-7, "a larger " + ParamAlphaScale},
		{14, 14, kv{ParamArea: 1e4, ParamAlphaScale: 1500}, tooClose, 1, ""},
		{14, 14, sphere, 0, tooClose, "a " + ParamAlphaScale + " nearer 1"},
		{5, 7, kv{ParamOmega3: 1.085, ParamAlphaU: 0.3}, 0, 1, ""},
		{4, 6, kv{ParamDerivative: false, ParamAlphaU: 1, ParamAlphaV: 1}, 0, 1e-9, ParamDerivative + ", another"},
		{1, 4, kv{ParamAlphaU: 2}, 0, 1e-9, "a smaller " + ParamAlphaU},
		{2, 2, kv{ParamAlphaU: 1, ParamAlphaV: 1, ParamOffsetU: 0.25, ParamOffsetV: 0.25}, // one is on the pole
			0, 1e-7, ParamAlphaScale},
		{32, 32, kv{ParamRows: 64, ParamCols: 64}, 1.6e-3, 1.8e-3, ""}, // means of four
	} {
		e := New(model.NewStore().RootScope(), c.rows, c.cols, 2).with(c.params).encoder()
		rows := e.config.hostFeatures()
		got, first, second := closest(rows)
		want := math.Inf(1)
		apart := func(i, j int) float64 { return floats.Distance(rows[i], rows[j], 2) }
		for i := range rows {
			for j := range i {
				want = min(want, apart(i, j))
			}
		}
		if !(math.Abs(got-want) <= 1e-6*want+1e-13) || !(math.Abs(apart(first, second)-want) <= 1e-6*want+1e-13) ||
			!(got >= c.low && got <= c.high) || (e.Warning() != "") != (c.advice != "") ||
			!strings.Contains(e.Warning(), c.advice) {
			t.Errorf("%d×%d %v: %g between %d and %d, want %g, in [%g, %g]; warning %q", c.rows, c.cols, c.params, got, first,
				second, want, c.low, c.high, e.Warning())
		}
	}
}
