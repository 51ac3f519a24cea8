// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

type reporter interface {
	Scalars() (map[string]float64, error)
}

func TestScalars_NamesTheVariableWithoutAValue(t *testing.T) {
	for missing, build := range map[string]func(*Config, *model.Variable) reporter{
		"/wepe/beta_pos":        func(c *Config, _ *model.Variable) reporter { return c.encoder() },
		"/wepe_bias/omega3_raw": func(c *Config, _ *model.Variable) reporter { return c.Bias(2) },
		"/surrogate/gamma_raw":  func(c *Config, _ *model.Variable) reporter { return c.Surrogate() },
		"/wepe/omega3_raw":      func(c *Config, v *model.Variable) reporter { return hybridOf(c, v, c.encoder()) },
		"/gate_raw":             func(c *Config, v *model.Variable) reporter { return hybridOf(c, v, c.Surrogate()) },
	} {
		store, v, _ := pretrained(t)
		of := build(New(store.RootScope(), rows, cols, hybridWidth), v)
		for _, spoil := range []func() error{store.GetVariable(missing).Reset,
			func() error { return store.DeleteVariable(missing) }} {
			gomlxtest.NoError(t, spoil())
			if _, err := of.Scalars(); err == nil || !strings.Contains(err.Error(), path.Base(missing)) {
				t.Errorf("%s: error %v, want one that names it", missing, err)
			}
		}
	}
}

func TestScalars_are_the_settings_and_only_the_learned_ones_train(t *testing.T) {
	type scalars = map[string]float64
	encoder := func(s *model.Scope, _ *model.Variable) reporter {
		return New(s, rows, cols, hybridWidth).FromScope().encoder()
	}
	surrogate := func(s *model.Scope, _ *model.Variable) reporter {
		return New(s, rows, cols, hybridWidth).FromScope().Surrogate()
	}
	hybrid := func(s *model.Scope, v *model.Variable) reporter {
		c := New(s, rows, cols, hybridWidth).FromScope()
		return hybridOf(c, v, c.encoder())
	}
	const square = 2.6220575542921196
	field := 0.1 + math.Log1p(math.Exp(0.5)) // ω3′ of the CIFAR-100 script
	fixed := []string{"a", "b", "gamma_raw", "modulation", "strength"}
	for _, c := range []struct {
		name   string
		build  func(*model.Scope, *model.Variable) reporter
		params kv
		want   scalars
		frozen []string
	}{
		{"paper", encoder, nil, scalars{"omega3": square, "alpha_scale": 0.15, "beta_pos": 0.8}, nil},
		{"release", encoder, kv{ParamMode: "release"}, scalars{"omega3": 0.7549461, "alpha_scale": 0.15, "beta_pos": 0.8},
			nil},
		{"ablations", encoder, kv{ParamLearnLattice: false, ParamLearnAlphaScale: false, ParamLearnBetaPos: false,
			ParamBetaPos: 1.0, ParamOmega3: 1.5, ParamAlphaScale: 0.3}, scalars{"omega3": 1.5, "alpha_scale": 0.3,
			"beta_pos": 1},
			[]string{"alpha_scale_raw", "beta_pos", "omega3_raw"}},
		{"leaning", encoder, kv{ParamOmega3Re: 0.25}, scalars{"omega3": square, "omega3_re": 0.25, "alpha_scale": 0.15,
			"beta_pos": 0.8}, []string{"omega3_re"}},
		{"bias", func(s *model.Scope, _ *model.Variable) reporter { return New(s, rows, cols, 1).FromScope().Bias(2) },
			kv{ParamAlphaScale: 0.3, ParamOmega3: 0.8, ParamOmega3Re: 0.2},
			scalars{"omega3": 0.8, "alpha_scale": 0.3, "omega3_re": 0.2}, []string{"omega3_re"}},
		{"surrogate", surrogate, kv{ParamSurrogateBeta: 0.7, ParamSurrogateGamma: 0.3},
			scalars{"omega3": field, "beta": 0.7, "gamma": 0.3, "strength": 1, "scale": 0.05}, fixed},
		{"study", surrogate, kv{ParamSurrogate: surrogateSweep, ParamSurrogateBeta: 0.01, ParamSurrogateGamma: 0.5},
			scalars{"omega3": field, "beta": 0.01, "gamma": 0.5, "strength": 1, "scale": 0.05},
			[]string{"a", "b", "beta_raw", "gamma_raw", "modulation", "strength"}},
		{"hybrid", hybrid, kv{ParamGate: 0.3, ParamLearnGate: false},
			scalars{"lambda": 0.3, "omega3": square, "alpha_scale": 0.15, "beta_pos": 0.8}, []string{"gate_raw"}},
		{"shut", hybrid, kv{ParamGate: 0}, scalars{"lambda": 0, "omega3": square, "alpha_scale": 0.15, "beta_pos": 0.8},
			nil},
		{"open", hybrid, kv{ParamGate: 1}, scalars{"lambda": 1, "omega3": square, "alpha_scale": 0.15, "beta_pos": 0.8},
			nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, v, _ := pretrained(t)
			store.SetParams(c.params)
			got := gomlxtest.Must(c.build(store.RootScope(), v).Scalars())(t)
			for name, want := range c.want {
				if !(math.Abs(got[name]-want) <= 1e-6*want) || len(got) != len(c.want) {
					t.Errorf("scalars %v, want %v", got, c.want)
				}
			}
			var frozen []string
			for v := range store.IterVariables() {
				if !v.Trainable {
					frozen = append(frozen, v.Path()[strings.LastIndex(v.Path(), "/")+1:])
				}
			}
			slices.Sort(frozen)
			if !slices.Equal(frozen, c.frozen) {
				t.Errorf("fixed %v, want %v", frozen, c.frozen)
			}
		})
	}
}
