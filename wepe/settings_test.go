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
func (c *SurrogateConfig) of(s Surrogate) *SurrogateConfig { c.surrogate = s; return c }

func (c *HybridConfig) with(params ...kv) *HybridConfig { read(c.settings(), params); return c }

func ofHalfPeriods(omega1, omega3 float64) kv { return kv{ParamOmega1: omega1, ParamOmega3: omega3} }
func ofSpan(alphaU, alphaV float64) kv        { return kv{ParamAlphaU: alphaU, ParamAlphaV: alphaV} }
func ofOblique(re float64, learn bool) kv     { return kv{ParamOmega3Re: re, ParamLearnOblique: learn} }
func ofScales(scales int, ratio float64) kv   { return kv{ParamScales: scales, ParamScaleRatio: ratio} }

// ofTable is a table of so many nodes, whatever its error.
func ofTable(kind TableKind, resolution int) kv {
	return kv{ParamEvaluation: EvaluateTable, ParamTable: kind, ParamTableResolution: resolution, ParamTableError: 2}
}

func TestEvery_setting_reaches_its_encoder_and_no_other_changes(t *testing.T) {
	changed := kv{
		ParamMode: "release", ParamProjection: "mlp", ParamDropout: 0.2, ParamDerivative: false, ParamOmega1: 2.5,
		ParamOmega3: 1.5, ParamOmega3Re: 0.3, ParamG2: 0.5, ParamG3: 0.1, ParamArea: 1.0, ParamLearnLattice: false,
		ParamLearnOblique: true, ParamHarmonics: 2, ParamOffsetU: 0.2,
		ParamOffsetV: -0.3, ParamCompression: "sphere", ParamScales: 3, ParamScaleRatio: 1.5, ParamAlphaU: 0.3,
		ParamAlphaV:     0.2,
		ParamAlphaScale: 0.25, ParamLearnAlphaScale: false, ParamBetaPos: 1.0, ParamLearnBetaPos: false,
		ParamEvaluation: "sum", ParamSumCut: 5, ParamKappa: 60.0, ParamCLarge: 2000.0, ParamTermClip: 70.0,
		ParamFinalClip: 90.0, ParamTable: "raw", ParamTableResolution: 33, ParamTableError: 0.5,
		ParamSurrogate: "svhn", ParamSurrogateBeta: 0.3, ParamSurrogateGamma: 0.4, ParamGate: 0.5, ParamLearnGate: false,
		ParamStart: StartFitted, ParamRows: 6, ParamCols: 10, ParamShift: 0.5,
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
