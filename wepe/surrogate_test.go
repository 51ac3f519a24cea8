// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// The numbers are those of the released scripts: "paper" has the CIFAR-100 script's (docs/evidence/deviations.md, 20),
// "svhn" those of vit_wef_svhn_1k.py; the paper's study fixes β and γ, with γ_k = γ/k² and K = 3.
func TestNamedSurrogate_HasTheNumbersOfTheReleasedScripts(t *testing.T) {
	plus := func(shift, raw float64) float64 { return shift + math.Log1p(math.Exp(raw)) }
	want := map[string]surrogate{}
	want[surrogatePaper] = surrogate{Channels: 4, Omega1: 2.6220575542921196, Omega3: plus(.1, .5), MinOmega3: .1,
		Beta: plus(.01, .1), MinBeta: .01, Gamma: 1, Strength: 1, A: []float64{.05, .05 / 2, .05 / 3},
		B: []float64{.03, .03 / 2}, Eta: .5, EtaPrime: .3, Decay: 1, EpsilonU: .01, EpsilonV: .01, Frequency: 2,
		MinRadius: 1e-6, Scale: .05, Modulation: []float64{1, 1, 1, 1}, Dropout: [2]float64{.1, 0}, Gain: .8,
		Learn: []string{"omega3", "beta", "scale"}}
	study := want[surrogatePaper]
	study.A, study.B, study.Learn = []float64{1, 1. / 4, 1. / 9}, []float64{1, 1. / 4, 1. / 9}, []string{"omega3", "scale"}
	study.Beta, study.MinBeta, study.Gamma = .1, 1e-4, .1
	want[surrogateSweep] = study
	svhn := want[surrogatePaper]
	svhn.Channels, svhn.Gamma, svhn.MinGamma = 6, plus(.1, .2), .1
	svhn.A, svhn.B, svhn.Eta, svhn.EtaPrime = []float64{1, 1. / 4, 1. / 9}, []float64{1, 1. / 4}, .7, .5
	svhn.EpsilonU, svhn.EpsilonV, svhn.Frequency, svhn.Scale = .02, .02, 3, .03
	svhn.Modulation, svhn.Dropout = []float64{1, .8, 1, 1, 1, 1}, [2]float64{.1, .05}
	svhn.Learn = []string{"omega3", "beta", "scale", "modulation", "gamma"}
	want[surrogateSVHN] = svhn
	for _, name := range surrogateNames() {
		got, want := fmt.Sprintf("%.12v", namedSurrogate(name)), fmt.Sprintf("%.12v", want[name])
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
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
