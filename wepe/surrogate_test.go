// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

func TestNamed_surrogates_have_the_numbers_of_the_released_scripts(t *testing.T) {
	type positive struct{ shift, raw float64 } // shift + softplus(raw)
	type powers struct {
		n                   int
		amplitude, exponent float64 // of k = 1 … n
	}
	type script struct {
		channels               int
		omega3, beta, gamma    positive
		strength               float64
		a, b                   powers
		decay, eta, etaPrime   float64
		epsilon, frequency     float64
		imaginary, scale, gain float64
		dropout                [2]float64
		learned                int // number of trained scalars and modulations
	}
	one := positive{0, math.Log(math.E - 1)} // the scripts without γ
	scripts := map[string]script{
		// docs/evidence/deviations.md, 20: the paper with the CIFAR-100 script's numbers.
		surrogatePaper: {4, positive{.1, .5}, positive{.01, .1}, one, 1, powers{3, .05, 1}, powers{2, .03, 1},
			1, .5, .3, .01, 2, 1, .05, .8, [2]float64{.1, 0}, 3},
		// vit_wef_svhn_1k.py
		surrogateSVHN: {6, positive{.1, .5}, positive{.01, .1}, positive{.1, .2}, 1, powers{3, 1, 2}, powers{2, 1, 2},
			1, .7, .5, .02, 3, .8, .03, .8, [2]float64{.1, .05}, 10},
		// The paper's study: β and γ fixed, γ_k = γ/k², K = 3.
		surrogateSweep: {4, positive{.1, .5}, positive{1e-4, math.Log(math.Expm1(.0999))},
			positive{0, math.Log(math.Expm1(.1))}, 1, powers{3, 1, 2}, powers{3, 1, 2},
			1, .5, .3, .01, 2, 1, .05, .8, [2]float64{.1, 0}, 2},
	}
	if len(scripts) != len(surrogateNames()) {
		t.Errorf("%d names, %d scripts", len(surrogateNames()), len(scripts))
	}
	for _, name := range surrogateNames() {
		want := scripts[name]
		s := namedSurrogate(name)
		near := func(of string, got, want float64) {
			t.Helper()
			if !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("%s: %s is %g, want %g", name, of, got, want)
			}
		}
		for of, x := range map[string]struct {
			min, value float64
			want       positive
		}{"ω3′": {s.MinOmega3, s.Omega3, want.omega3}, "β": {s.MinBeta, s.Beta, want.beta},
			"γ": {s.MinGamma, s.Gamma, want.gamma}} {
			near("the bound of "+of, x.min, x.want.shift)
			near(of, x.value, x.want.shift+math.Log1p(math.Exp(x.want.raw)))
		}
		for of, x := range map[string]struct {
			list []float64
			want powers
		}{"a": {s.A, want.a}, "b": {s.B, want.b}} {
			near("the length of "+of, float64(len(x.list)), float64(x.want.n))
			for i, value := range x.list {
				near(of, value, x.want.amplitude*math.Pow(float64(i+1), -x.want.exponent))
			}
		}
		near("ω1", s.Omega1, 2.6220575542921196)
		near("σ", s.Strength, want.strength)
		near("δ", s.Decay, want.decay)
		near("η", s.Eta, want.eta)
		near("η′", s.EtaPrime, want.etaPrime)
		near("ε_u", s.EpsilonU, want.epsilon)
		near("ε_v", s.EpsilonV, want.epsilon)
		near("φ", s.Frequency, want.frequency)
		near("s", s.Scale, want.scale)
		near("gain", s.Gain, want.gain)
		near("dropout 1", s.Dropout[0], want.dropout[0])
		near("dropout 2", s.Dropout[1], want.dropout[1])
		near("radius", s.MinRadius, 1e-6)
		modulation := slices.Repeat([]float64{1}, want.channels)
		modulation[1] = want.imaginary
		if !slices.Equal(s.Modulation, modulation) || s.Channels != want.channels {
			t.Errorf("%s: %d channels, modulation %v, want %v", name, s.Channels, s.Modulation, modulation)
		}
		learned := len(s.Learn)
		if s.learns("modulation") {
			learned += s.Channels - 1
		}
		near("learned numbers", float64(learned), float64(want.learned))
	}
}

func TestSurrogate_drops_units_of_its_two_hidden_layers_in_training_only(t *testing.T) {
	for _, rates := range [][2]float64{{0, 0}, {0.5, 0}, {0, 0.5}} {
		s := namedSurrogate(surrogatePaper)
		s.Dropout = rates
		encode := func(store *model.Store, training bool) []float64 {
			return run(t, store, func(scope *model.Scope, in []*Node) []*Node {
				scope.Store().SetTraining(in[0].Graph(), training)
				return []*Node{surrogateOf(scope, rows, cols, 8, s).Encode(in[0].Graph())}
			}, float32(0))[0]
		}
		store := model.NewStore()
		evaluated := encode(store, false)
		if !slices.Equal(encode(store, false), evaluated) {
			t.Errorf("dropout %v: evaluation is not deterministic", rates)
		}
		drops := rates[0]+rates[1] > 0
		if slices.Equal(encode(store, true), evaluated) == drops {
			t.Errorf("dropout %v: training and evaluation agree: %v", rates, !drops)
		}
	}
}
