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
	flat := make([]float32, positions*hybridWidth)
	for i := range flat {
		flat[i] = float32(math.Sin(float64(7*i))) * float32(math.Exp2(float64(i%40-20)))
	}
	return pretrainedOf(t, flat)
}

func pretrainedOf(t *testing.T, flat []float32) (*model.Store, *model.Variable, []float64) {
	t.Helper()
	store, rows := model.NewStore(), tensors.FromFlatDataAndDimensions(flat, positions, hybridWidth)
	return store, gomlxtest.Must(store.CreateVariable("/embedding", rows))(t), gomlxtest.Values(t, rows)
}

// hybridOf blends an encoding without prefix, of the same settings, into the rows of pretrained.
func hybridOf(c *Config, v *model.Variable, patches Encoder) *hybrid {
	return c.WithPrefix(prefix).Hybrid(v, patches).(*hybrid)
}

func TestHybrid_blends_the_patches_leaves_the_prefix_alone_and_is_exact_at_both_ends(t *testing.T) {
	for name, encoding := range encodings {
		for _, lambda := range []float64{0, 0.25, defaultGate, 1} {
			store, v, p := pretrained(t)
			got := run(t, store, onlyIn(func(s *model.Scope, g *Graph) []*Node {
				e := encoding(s)
				h := hybridOf(New(s, rows, cols, hybridWidth).with(kv{ParamGate: lambda}).with(kv{ParamStart: startCentred}), v, e)
				gomlxtest.NoError(t, h.Start(gomlxtest.Backend())) // moves the encoding, not the table
				x := ramp(g, 2, positions, hybridWidth)
				rows := h.Encode(g)
				return []*Node{rows, e.Encode(g), h.PreEncode(x, nil, 1), Add(x, InsertAxes(rows, 0)), h.lambda(g)}
			}), float32(0))
			head := prefix * hybridWidth
			if !slices.Equal(got[0][:head], p[:head]) || !slices.Equal(got[2], got[3]) {
				t.Errorf("%s: λ = %g changes prefix rows or tokens", name, lambda)
			}
			want := make([]float64, len(got[1]))
			for i, w := range got[1] {
				want[i] = lambda*w + (1-lambda)*p[head+i]
			}
			gomlxtest.Near(t, name, got[0][head:], want, 2e-7)
			if (lambda == 0 || lambda == 1) && (!slices.Equal(got[0][head:], want) || got[4][0] != lambda) {
				t.Errorf("%s: λ = %g is not one of both bit for bit", name, lambda)
			}
		}
	}
}

func TestHybrid_gate_has_the_gradient_of_the_blend_and_none_when_shut(t *testing.T) {
	for name, encoding := range encodings {
		for _, lambda := range []float64{0, 0.25, 0.622459, 1} {
			store, v, p := pretrained(t)
			var paths []string
			got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
				e := encoding(s)
				rows := hybridOf(New(s, rows, cols, hybridWidth).with(kv{ParamGate: lambda}), v, e).Encode(in[0].Graph())
				out := []*Node{e.Encode(in[0].Graph())}
				var values []*Node
				for v := range s.IterVariables() {
					if v.Trainable {
						paths, values = append(paths, v.Path()), append(values, v.NodeValue(in[0].Graph()))
					}
				}
				return append(out, Gradient(ReduceAllSum(Mul(rows, ramp(rows.Graph(), positions, hybridWidth))), values...)...)
			}, float32(0))
			if raw := gomlxtest.Values(t, store.GetVariable("/gate_raw").MustValue())[0]; math.IsInf(raw, 0) {
				t.Errorf("%s: λ = %g: the gate's variable is %g", name, lambda, raw)
			}
			var want, scale float64
			for i, w := range got[0] {
				k := prefix*hybridWidth + i
				term := 0.01 * float64(k) * lambda * (1 - lambda) * (w - p[k])
				want, scale = want+term, scale+math.Abs(term)
			}
			gate := got[1+slices.Index(paths, "/gate_raw")][0]
			if !(math.Abs(gate-want) <= 1e-6*scale) {
				t.Errorf("%s: λ = %g: gradient of the gate is %g, want %g", name, lambda, gate, want)
			}
			for i, path := range paths {
				if !finite(got[1+i]) {
					t.Errorf("%s: λ = %g: the gradient of %s is not finite", name, lambda, path)
				}
			}
			rows := got[1+slices.Index(paths, "/embedding")]
			for k, gradient := range rows {
				share := 1.0
				if k >= prefix*hybridWidth {
					share = 1 - lambda
				}
				if !(math.Abs(gradient-0.01*float64(k)*share) <= 1e-6*float64(k)) {
					t.Fatalf("%s: λ = %g: the gradient of pretrained number %d is %g", name, lambda, k, gradient)
				}
			}
		}
	}
}
