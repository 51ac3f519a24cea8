// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/wepe/internal/elliptic"
)

// areFinite fails the test unless all outputs of a graph are finite.
func areFinite(t *testing.T, what string, outputs ...[]float64) {
	t.Helper()
	for i, output := range outputs {
		if slices.ContainsFunc(output, func(v float64) bool { return math.IsNaN(v - v) }) {
			t.Errorf("%s: output %d is not finite", what, i)
		}
	}
}

// withGradients returns x, float32, and the gradients of its sum, weighted by a ramp, by all trainable variables.
func withGradients(s *model.Scope, x *Node) []*Node {
	loss := ReduceAllSum(Mul(x, ramp(x.Graph(), x.Shape().Dimensions...)))
	return append([]*Node{x}, s.BuildTrainableVariablesGradientsGraph(loss)...)
}

// Random grids, lattices, spans, scales and dtypes of the tokens over all valid settings, for every form; the first
// cases are the extremes, with spans of 1.2 and 3, which put patches of 3×3 and 6×9 grids on poles and, modulo the
// lattice, on one another. In every third case ω3′ and α_scale are beyond all values that training reaches.
func TestEncodings_AreFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, r.Float64()) }
	extremes := [][5]float64{ // rows, columns, ω3′ and spans
		{1, 1, 0.02, 0.01, 1.2}, {1, 128, 50, 1.2, 0.01}, {128, 1, 0.02, 0.5, 1}, {128, 128, 50, 0.01, 0.01},
		{3, 3, 0.02, 1.2, 1.2}, {6, 9, 50, 1.2, 1.2}, {1, 1, 1.3, 1, 1}, {128, 128, 0.02, 1.2, 1.2}, {4, 9, 8, 3, 3},
		{6, 6, maxOmega3, 3, 1.2},
	}
	for i := range 24 {
		if gomlxtest.OnXLA() && i%15 != 5 { // every case compiles up to eight programs
			continue
		}
		rows, cols := int(between(1, 128.99)), int(between(1, 128.99))
		omega3, spanU, spanV := between(0.02, 50), between(0.01, 1.2), between(0.01, 1.2)
		if i < len(extremes) {
			c := extremes[i]
			rows, cols, omega3, spanU, spanV = int(c[0]), int(c[1]), c[2], c[3], c[4]
		}
		dtype, mode, alphaScale := []dtypes.DType{dtypes.Float32, dtypes.BFloat16}[i%2], paper, between(1e-4, 100)
		if i/16%2 == 1 {
			mode, omega3 = release, min(omega3, releaseMaxOmega3)
			alphaScale = min(max(alphaScale, releaseMinAlphaScale), releaseMaxAlphaScale)
		}
		cut := elliptic.ReleasedSum.Cut
		for cut > 1 && rows*cols*4*cut*(cut+1) > 1<<17 { // terms of all patches: memory, not arithmetic
			cut--
		}
		forms := map[string]kv{"as the mode has it": {}, "sum": {byEvaluation: evaluateSum}}
		if rows*cols <= 256 {
			forms["bias"] = kv{}
		}
		if mode == paper && rows*cols <= 256 { // four scales, the third of which has patches on poles at a span of 0.4
			forms["leaning"] = kv{ParamOmega3Re: []float64{0.5, 1.3, -300, 0, 999}[i%5], ParamScales: 4}
			forms["leaning bias"] = forms["leaning"]
		}
		if mode == paper && rows*cols <= 1600 {
			forms["sphere"] = kv{byCompression: compressSphere, ParamOffsetU: 2*r.Float64() - 1, ParamHarmonics: 1 + r.IntN(3)}
			forms["oblique sphere"] = kv{byCompression: compressSphere, ParamOmega3Re: 5 * r.NormFloat64()}
		}
		for name, form := range forms {
			store, bias := model.NewStore(), strings.Contains(name, "bias")
			if i%3 == 2 { // as if learned
				scope := map[bool]string{false: scopeName, true: scopeBias}[bias]
				if strings.Contains(name, "sphere") {
					scope += sphereSuffix
				}
				scalarVariable(store.Scope("/"+scope), nameOmega3, softplusInverse([]float64{1e-6, 2000}[i%2]), true)
				scalarVariable(store.Scope("/"+scope), nameAlphaScale, mode.rawAlphaScale(alphaScale), true)
			}
			outputs := run(t, store, func(s *model.Scope, in []*Node) []*Node {
				g := in[0].Graph()
				c := New(s, rows, cols, 2).WithPrefix(1).with(kv{ParamMode: mode, ParamAlphaScale: alphaScale}, form,
					ofHalfPeriods(1.3, omega3), ofSpan(spanU, spanV))
				c.sum.Cut = cut
				if bias {
					return withGradients(s, biasOf(s, c).AttentionBias(g))
				}
				e := c.encoder()
				features := []*Node{e.Features(g)}
				if c := e.config; c.compression != compressSphere {
					x, y := c.patches(c.grid)
					p, pPrime := e.values(e.viewed(g, x, y))
					features = append(features, p.Re, p.Im, pPrime.Re, pPrime.Im)
				}
				x := ConvertDType(BroadcastToDims(in[0], 1, rows*cols+1, 2), dtype)
				return append(withGradients(s, ConvertDType(e.PreEncode(x, nil, 1), dtypes.Float32)), features...)
			}, float32(1))
			areFinite(t, fmt.Sprintf("%s, %s, grid %d×%d, ω3′ %g, spans %g, %g, tokens %s", name, mode, rows, cols, omega3,
				spanU, spanV, dtype), outputs...)
		}
	}
}
