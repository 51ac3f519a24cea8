// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// hybridWidth is even, for the surrogate; the other sizes are in encoder_test.go.
const hybridWidth = 6

// encodings are the encodings of rows × cols patches that a gate supports.
var encodings = map[string]func(*model.Scope) Encoder{
	"surrogate": func(s *model.Scope) Encoder { return New(s, rows, cols, hybridWidth).Surrogate() },
	"scratch":   func(s *model.Scope) Encoder { return New(s, rows, cols, hybridWidth).encoder() },
}

// pretrained returns a store with pretrained rows /embedding for prefix tokens and the patches.
func pretrained(t *testing.T) (*model.Store, *model.Variable, []float64) {
	t.Helper()
	return pretrainedOf(t, func(i int) float32 {
		return float32(math.Sin(float64(7*i))) * float32(math.Exp2(float64(i%40-20)))
	})
}

func pretrainedOf(t *testing.T, value func(i int) float32) (*model.Store, *model.Variable, []float64) {
	t.Helper()
	flat := make([]float32, positions*hybridWidth)
	for i := range flat {
		flat[i] = value(i)
	}
	store, rows := model.NewStore(), tensors.FromFlatDataAndDimensions(flat, positions, hybridWidth)
	return store, gomlxtest.Must(store.CreateVariable("/embedding", rows))(t), gomlxtest.Values(t, rows)
}

// hybridOf blends an encoding without prefix, of the same settings, into the rows of pretrained.
func hybridOf(c *Config, v *model.Variable, patches Encoder) *hybrid {
	return c.WithPrefix(prefix).Hybrid(v, patches).(*hybrid)
}

func TestHybrid_BlendsThePatches(t *testing.T) {
	const head = prefix * hybridWidth
	for i, lambda := range []float64{0, defaultGate, 0.25, 0.622459, 1} {
		for _, name := range gomlxtest.InTurn(i, "scratch", "surrogate") {
			encoding := encodings[name]
			name := fmt.Sprintf("%s, λ = %g", name, lambda)
			store, v, p := pretrained(t)
			var paths []string
			got := run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
				e := encoding(s)
				h := hybridOf(New(s, rows, cols, hybridWidth).with(kv{ParamGate: lambda, ParamStart: startCentred}), v, e)
				gomlxtest.NoError(t, h.Start(gomlxtest.Backend())) // moves the encoding, not the table
				x, blend := ramp(g, 2, positions, hybridWidth), h.Encode(g)
				var byVariable []*Node
				paths, byVariable = gradients(s, ReduceAllSum(Mul(blend, ramp(g, positions, hybridWidth))))
				return append([]*Node{blend, e.Encode(g), h.PreEncode(x, nil, 1), Add(x, InsertAxes(blend, 0)), h.lambda(g)},
					byVariable...)
			}), float32(0))
			gomlxtest.NearAbs(t, name+": prefix rows", got[0][:head], p[:head], 0)
			gomlxtest.NearAbs(t, name+": tokens", got[2], got[3], 0)
			want, byGate, scale := make([]float64, len(got[1])), 0.0, 0.0
			for i, w := range got[1] {
				want[i] = lambda*w + (1-lambda)*p[head+i]
				term := 0.01 * float64(head+i) * lambda * (1 - lambda) * (w - p[head+i])
				byGate, scale = byGate+term, scale+math.Abs(term)
			}
			gomlxtest.Near(t, name, got[0][head:], want, 2e-7)
			if (lambda == 0 || lambda == 1) && (!slices.Equal(got[0][head:], want) || got[4][0] != lambda) {
				t.Errorf("%s is not one of both bit for bit", name)
			}
			areFinite(t, name+": the gate's variable", gomlxtest.Values(t, store.GetVariable("/gate_raw").MustValue()))
			for i, path := range paths {
				gradient := got[5+i]
				areFinite(t, name+": the gradient of "+path, gradient)
				if path == "/gate_raw" {
					is.Near(t, name+": gradient of the gate", gradient[0], byGate, 1e-6*scale)
				}
				for k := 0; path == "/embedding" && k < len(gradient); k++ {
					share := map[bool]float64{true: 1, false: 1 - lambda}[k < head]
					is.Near(t, fmt.Sprint(name, ": gradient of number ", k), gradient[k], 0.01*float64(k)*share, 1e-6*float64(k))
				}
			}
			if !slices.Contains(paths, "/gate_raw") || !slices.Contains(paths, "/embedding") {
				t.Errorf("%s: trained are %q", name, paths)
			}
		}
	}
}

// smooth are values of ordinary size, smooth over the grid, after a prefix row.
func smooth(i int) float32 {
	k, j := i/hybridWidth, float64(i%hybridWidth)
	return float32(0.3*math.Sin(0.4*float64(k/cols)*(j+1)) + 0.2*math.Cos(0.5*float64(k%cols)+j) - 0.1*j)
}

// started returns the pretrained rows of the patches, and the rows of an encoding before and after Start. The other
// nodes of inspect are evaluated after it.
func started(t *testing.T, encoding func(*model.Scope) Encoder, start string, inspect func(Encoder, *Graph) []*Node) (
	want, before, after []float64, more [][]float64) {
	t.Helper()
	store, v, pretrained := pretrainedOf(t, smooth)
	evaluate := func() [][]float64 {
		return run(t, store, func(s *model.Scope, in []*Node) []*Node {
			e, g := encoding(s), in[0].Graph()
			return append([]*Node{e.Encode(g)}, inspect(e, g)...)
		}, float32(0))
	}
	before = evaluate()[0]
	c := New(store.RootScope(), rows, cols, hybridWidth).WithPrefix(prefix).with(kv{ParamStart: start})
	h := c.Hybrid(v, encoding(store.RootScope())).(*hybrid)
	for range 2 { // a second call changes nothing
		gomlxtest.NoError(t, h.Start(gomlxtest.Backend()))
	}
	values := evaluate()
	return pretrained[prefix*hybridWidth:], before, values[0], values[1:]
}

func nothing(Encoder, *Graph) []*Node { return nil }

func TestStart_CentredMovesTheMean(t *testing.T) {
	differences := func(rows []float64) (out []float64) {
		for i := hybridWidth; i < len(rows); i++ {
			out = append(out, rows[i]-rows[i%hybridWidth])
		}
		return out
	}
	for name, encoding := range map[string]func(*model.Scope) Encoder{
		"surrogate": encodings["surrogate"], "exact": encodings["scratch"], "exact, MLP": func(s *model.Scope) Encoder {
			return New(s, rows, cols, hybridWidth).with(kv{ParamProjection: mlp, ParamBetaPos: 1.3}).encoder()
		}} {
		table, before, after, _ := started(t, encoding, startCentred, nothing)
		gomlxtest.Near(t, name+": mean", means(after), means(table), 1e-5)
		gomlxtest.Near(t, name+": differences", differences(after), differences(before), 1e-5)
		_, before, after, _ = started(t, encoding, startDrawn, nothing)
		gomlxtest.Near(t, name+": as drawn", after, before, 0)
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

// The residual of least squares is orthogonal to the regressors, the hidden rows and a constant. These are the normal
// equations, which the code does not use.
func TestStart_FittedIsTheLeastSquaresFit(t *testing.T) {
	table, _, rows, more := started(t, encodings["surrogate"], startFitted, func(e Encoder, g *Graph) []*Node {
		return []*Node{e.(*surrogateEncoder).hiddenRows(g)}
	})
	hidden := more[0]
	gomlxtest.Near(t, "mean", means(rows), means(table), 1e-5)
	for j := range hybridWidth {
		for i := range hybridWidth {
			var sum, scale float64
			for at := 0; at < len(rows); at += hybridWidth {
				product := hidden[at+i] * (rows[at+j] - table[at+j])
				sum, scale = sum+product, scale+math.Abs(product)
			}
			is.Near(t, fmt.Sprintf("channel %d: Σ hidden_%d·residual", j, i), sum, 0, fitRank*scale)
		}
	}
}

func TestStart_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		start string
		spoil func(e *surrogateEncoder, pretrained *model.Variable)
	}{
		"no pretrained rows": {startCentred, func(_ *surrogateEncoder, v *model.Variable) {
			gomlxtest.NoError(t, v.Reset())
		}},
		"rows of a half":        {startCentred, func(e *surrogateEncoder, _ *model.Variable) { e.output = e.hidden.dense }},
		"hidden rows of a half": {startFitted, func(e *surrogateEncoder, _ *model.Variable) { e.hidden = e.middle }},
		"hidden rows not finite": {startFitted, func(e *surrogateEncoder, _ *model.Variable) {
			gomlxtest.NoError(t, e.scale.SetValue(tensors.FromScalar(float32(math.NaN()))))
		}},
	} {
		store, v, _ := pretrained(t)
		config := New(store.RootScope(), rows, cols, hybridWidth).with(kv{ParamStart: c.start})
		e := config.surrogateEncoder()
		h := hybridOf(config, v, e)
		c.spoil(e, v)
		if h.Start(gomlxtest.Backend()) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	store, v, _ := pretrained(t)
	centred := New(store.RootScope(), rows, cols, hybridWidth).with(kv{ParamStart: startCentred, ParamBetaPos: 0.0})
	if hybridOf(centred, v, centred.encoder()).Start(gomlxtest.Backend()) == nil {
		t.Error("β_pos = 0: no error")
	}
	bare, v2, _ := pretrained(t) // rows for all of 17 × 1 patches, and none for a prefix
	config := New(bare.RootScope(), positions, 1, hybridWidth).with(kv{ParamStart: startCentred})
	if config.Hybrid(v2, config.Hybrid(v2, config.Surrogate())).(*hybrid).Start(gomlxtest.Backend()) == nil {
		t.Error("a gate in a gate: no error")
	}
}
