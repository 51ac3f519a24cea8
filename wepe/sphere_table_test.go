// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestFeatures_on_the_sphere_out_of_a_table_are_those_of_the_host_but_for_its_error(t *testing.T) {
	for name, params := range map[string]kv{
		"whole cell":     nil,
		"no ℘′":          {paramDerivative: false},
		"many views":     {paramHarmonics: 2, paramScales: 2, paramOffsetU: -0.5, paramOffsetV: 0.3},
		"part, stronger": {paramAlphaU: 0.4, paramAlphaScale: 3.0, "wepe_omega3": 3.1},
	} {
		t.Run(name, func(t *testing.T) {
			store := model.NewStore()
			var e *Encoder
			got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
				e = New(s, 5, 7, 6).OnSphere().with(kv{paramEvaluation: evaluateTable}, params).Done()
				return []*Node{e.Features(in[0].Graph()), e.Encode(in[0].Graph())}
			}, float32(0))
			var want []float64
			for _, row := range e.config.hostFeatures() {
				want = append(want, row...)
			}
			gomlxtest.Near(t, "features", got[0], want, 1.2e-3)
			values := store.GetVariable("/wepe_sphere/table/values")
			if values == nil || values.Shape().Dim(2) != 6 || values.Trainable {
				t.Errorf("the table is %v", values)
			}
			if err := e.BuildTable(); err != nil { // of the same values: it opens again
				t.Error(err)
			}
			if _, _, err := e.checkTable(); err != nil {
				t.Error(err)
			}
		})
	}
}
