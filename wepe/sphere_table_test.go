// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	"math"
	"math/rand/v2"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// (14.24), with the second derivatives by differences of the exact function; and that the bound is not an idle one.
func TestTable_of_the_sphere_errs_by_its_law(t *testing.T) {
	for _, omega3p := range []float64{2.6, 3.7, 1.4} {
		for _, resolution := range []int{33, 129, 512} {
			key := tableKey{Mode: paper, Omega1: 2.6, Omega3p: omega3p, SpanU: 1, SpanV: 1, Resolution: resolution,
				Kind: sphereTable}
			at, lookedUp := gomlxtest.Must(key.exact())(t), gomlxtest.Must(key.lookedUp())(t)
			const step = 1e-3
			curvature := 0.0 // |f_xx| + |f_yy| of the worst part, by periods
			for i := range 64 {
				for j := range 64 {
					x, y := float64(i)/64, float64(j)/64
					here := at(x, y)
					left, right, above, below := at(x-step, y), at(x+step, y), at(x, y-step), at(x, y+step)
					for c := range here {
						curvature = max(curvature, (math.Abs(left[c]+right[c]-2*here[c])+
							math.Abs(above[c]+below[c]-2*here[c]))/(step*step))
					}
				}
			}
			bound := curvature / 8 / float64(resolution-1) / float64(resolution-1)
			random, worst := rand.New(rand.NewPCG(1, 2)), 0.0
			for range 4000 {
				x, y := 4*random.Float64()-2, 4*random.Float64()-2
				for c, got := range lookedUp(x-math.Floor(x), y-math.Floor(y)) {
					worst = max(worst, math.Abs(got-at(x, y)[c]))
				}
			}
			if !(worst <= 1.1*bound) || worst < bound/4 {
				t.Errorf("ω3′ = %g, %d nodes a side: off by %.2g, the law says %.2g", omega3p, resolution, worst, bound)
			}
			if measured, err := key.errorOf(1); err != nil || !(measured <= 1.1*bound) || measured < worst/2 {
				t.Errorf("ω3′ = %g, %d nodes a side: Error says %.2g, %v, found %.2g", omega3p, resolution, measured, err, worst)
			}
			t.Logf("ω3′ = %g, %d nodes a side: %.2g, law %.2g", omega3p, resolution, worst, bound)
		}
	}
}

func TestFeatures_on_the_sphere_out_of_a_table_are_those_of_the_host_but_for_its_error(t *testing.T) {
	for name, params := range map[string]kv{
		"whole cell":     nil,
		"no ℘′":          {paramDerivative: false},
		"many views":     {paramHarmonics: 2, paramScales: 2, paramOffsetU: -0.5, paramOffsetV: 0.3},
		"part, stronger": {paramAlphaU: 0.4, paramAlphaScale: 3.0, paramOmega3: 3.1},
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
			if _, err := e.checkTable(); err != nil {
				t.Error(err)
			}
		})
	}
}
