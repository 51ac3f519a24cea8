// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// started returns the pretrained rows of the patches, and what an encoding makes of the patches before and after it is
// moved to a start: its rows, and the inputs and outputs of its last dense layer.
func started(t *testing.T, encoding func(*model.Scope) Encoding, start string) (table []float64, before, after [][]float64) {
	t.Helper()
	all := make([]float32, positions*hybridWidth)
	for i := range all {
		k, j := i/hybridWidth, float64(i%hybridWidth)
		all[i] = float32(0.3*math.Sin(0.4*float64(k/cols)*(j+1)) + 0.2*math.Cos(0.5*float64(k%cols)+j) - 0.1*j)
	}
	store := model.NewStore()
	v, err := store.CreateVariable("/embedding", tensors.FromFlatDataAndDimensions(all, positions, hybridWidth))
	if err != nil {
		t.Fatal(err)
	}
	evaluate := func() [][]float64 {
		return run(t, store, func(s *model.Scope, in []*Node) []*Node {
			e, g := encoding(s), in[0].Graph()
			switch e := e.(type) {
			case *SurrogateEncoder:
				x := e.hiddenRows(g)
				return []*Node{e.Encode(g), x, e.output.apply(x)}
			case *Encoder:
				x := e.projection.hiddenRows(e.Features(g))
				return []*Node{e.Encode(g), x, e.projection.final.dense.apply(x)}
			}
			panic("no such encoding")
		}, float32(0))
	}
	before = evaluate()
	h := NewHybrid(store.RootScope(), v, encoding(store.RootScope())).with(kv{ParamStart: start}).Done()
	if err := h.Start(gomlxtest.Backend()); err != nil {
		t.Fatal(err)
	}
	return gomlxtest.Values(t, v.MustValue())[prefix*hybridWidth:], before, evaluate()
}

// startable are encodings with each kind of last layer.
var startable = map[string]func(*model.Scope) Encoding{
	"surrogate": encodings["surrogate"],
	"exact":     encodings["scratch"],
	"exact, MLP": func(s *model.Scope) Encoding {
		return New(s, rows, cols, hybridWidth).with(kv{ParamProjection: MLP, ParamBetaPos: 1.3}).Done()
	},
}

func TestStart_drawn_changes_nothing(t *testing.T) {
	for name, encoding := range startable {
		if _, before, after := started(t, encoding, StartDrawn); !slices.Equal(before[0], after[0]) {
			t.Errorf("%s: the rows moved", name)
		}
	}
}

func TestStart_centred_gives_the_rows_the_mean_of_the_table_and_keeps_their_differences(t *testing.T) {
	for name, encoding := range startable {
		table, before, after := started(t, encoding, StartCentred)
		gomlxtest.Near(t, name+": mean", means(after[0]), means(table), 1e-5)
		differences := func(rows []float64) (out []float64) {
			for i := hybridWidth; i < len(rows); i++ {
				out = append(out, rows[i]-rows[i%hybridWidth])
			}
			return out
		}
		gomlxtest.Near(t, name+": differences", differences(after[0]), differences(before[0]), 1e-5)
	}
}

// means returns the mean of each column of rows [patches, hybridWidth].
func means(rows []float64) []float64 {
	out := make([]float64, hybridWidth)
	for i, v := range rows {
		out[i%hybridWidth] += v / float64(len(rows)/hybridWidth)
	}
	return out
}

// Least squares leaves a residual at right angles to all that it may combine. That is the normal equations, which the
// code does not use.
func TestStart_fitted_is_the_least_squares_fit_of_the_last_layer(t *testing.T) {
	for name, encoding := range startable {
		table, before, after := started(t, encoding, StartFitted)
		rows, inputs, dense := after[0], after[1], after[2]
		patches := len(table) / hybridWidth
		k := len(inputs) / patches
		for j := range hybridWidth {
			for i := -1; i < k; i++ { // -1: the bias
				upright(t, name, patches, func(patch int) (x, residual float64) {
					x = 1
					if i >= 0 {
						x = inputs[patch*k+i]
					}
					return x, dense[patch*hybridWidth+j] - table[patch*hybridWidth+j]
				})
			}
			for _, power := range []float64{0, 1} { // offset and gain
				upright(t, name+", rows", patches, func(patch int) (x, residual float64) {
					row := rows[patch*hybridWidth+j]
					return math.Pow(row, power), row - table[patch*hybridWidth+j]
				})
			}
		}
		if was, is := apart(before[0], table), apart(rows, table); is > 0.7*was {
			t.Errorf("%s: the rows are %g from the table, were %g", name, is, was)
		}
	}
}

// upright checks that Σ x·residual is nothing beside Σ |x·residual|, over the patches.
func upright(t *testing.T, name string, patches int, at func(patch int) (x, residual float64)) {
	t.Helper()
	var sum, scale float64
	for patch := range patches {
		x, residual := at(patch)
		sum, scale = sum+x*residual, scale+math.Abs(x*residual)
	}
	if math.Abs(sum) > 1e-2*scale+1e-6 { // fitRank leaves as much
		t.Errorf("%s: Σ x·residual = %g, Σ |x·residual| = %g", name, sum, scale)
	}
}

func apart(a, b []float64) float64 {
	var sum float64
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}
