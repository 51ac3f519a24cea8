// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
)

// kv are hyperparameters by name.
type kv = map[string]any

func read(rows []setting.Row, params []kv) {
	store := model.NewStore()
	for _, some := range params {
		store.SetParams(some)
	}
	setting.Read(store.RootScope(), rows)
}

// with gives a configuration hyperparameters without leaving them in its scope.
func (c *Config) with(params ...kv) *Config { read(c.settings(), params); return c }

func (c *SurrogateConfig) with(params ...kv) *SurrogateConfig { read(c.settings(), params); return c }

// of takes a field that has no name.
func (c *SurrogateConfig) of(s surrogate) *SurrogateConfig { c.surrogate = s; return c }

func (c *HybridConfig) with(params ...kv) *HybridConfig { read(c.settings(), params); return c }

func ofHalfPeriods(omega1, omega3 float64) kv { return kv{paramOmega1: omega1, paramOmega3: omega3} }
func ofSpan(alphaU, alphaV float64) kv        { return kv{paramAlphaU: alphaU, paramAlphaV: alphaV} }
func ofOblique(re float64, learn bool) kv     { return kv{paramOmega3Re: re, paramLearnOblique: learn} }
func ofScales(scales int, ratio float64) kv   { return kv{paramScales: scales, paramScaleRatio: ratio} }

// ofTable is a table of so many nodes, whatever its error.
func ofTable(kind tableKind, resolution int) kv {
	return kv{paramEvaluation: evaluateTable, paramTable: kind, paramTableResolution: resolution, paramTableError: 2}
}

func TestEvery_setting_reaches_its_encoder_and_no_other_changes(t *testing.T) {
	changed := kv{
		paramMode: "release", paramProjection: "mlp", paramDropout: 0.2, paramDerivative: false, paramOmega1: 2.5,
		paramOmega3: 1.5, paramOmega3Re: 0.3, paramG2: 0.5, paramG3: 0.1, paramArea: 1.0, paramLearnLattice: false,
		paramLearnOblique: true, paramHarmonics: 2, paramOffsetU: 0.2,
		paramOffsetV: -0.3, paramCompression: "sphere", paramScales: 3, paramScaleRatio: 1.5, paramAlphaU: 0.3,
		paramAlphaV:     0.2,
		paramAlphaScale: 0.25, paramLearnAlphaScale: false, paramBetaPos: 1.0, paramLearnBetaPos: false,
		paramEvaluation: "sum", paramSumCut: 5, paramKappa: 60.0, paramCLarge: 2000.0, paramTermClip: 70.0,
		paramFinalClip: 90.0, paramTable: "raw", paramTableResolution: 33, paramTableError: 0.5,
		paramSurrogate: "svhn", paramSurrogateBeta: 0.3, paramSurrogateGamma: 0.4, paramGate: 0.5, paramLearnGate: false,
		paramStart: startFitted, paramRows: 6, paramCols: 10, paramShift: 0.5,
	}
	if names := Params(); len(names) != len(changed) {
		t.Errorf("%d settings, want the %d of this test", len(names), len(changed))
	}
	seen := make(map[string]string) // the state after a change, and what was changed
	for name, value := range changed {
		store := model.NewStore()
		store.SetParam("/"+name, value)
		scope := store.RootScope()
		config, surrogate, hybrid := *New(scope, 3, 5, 8).FromScope(), *NewSurrogate(scope, 3, 5, 8).FromScope(),
			*NewHybrid(scope, nil, nil).FromScope()
		config.scope, surrogate.scope, hybrid.scope = nil, nil, nil
		state := fmt.Sprintf("%+v %+v %+v", config, surrogate, hybrid)
		if other, taken := seen[state]; taken || !slices.Contains(Params(), name) {
			t.Errorf("%s = %v changes what %q changes", name, value, other)
		}
		seen[state] = name
	}
	config, surrogate, hybrid := *New(nil, 3, 5, 8), *NewSurrogate(nil, 3, 5, 8), *NewHybrid(nil, nil, nil)
	if name, taken := seen[fmt.Sprintf("%+v %+v %+v", config, surrogate, hybrid)]; taken {
		t.Errorf("%s changes nothing", name)
	}
}
