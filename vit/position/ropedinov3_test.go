// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The first and the last period are those given, of any size, and the others between them geometric.
func TestDINOv3PeriodsAreGeometric(t *testing.T) {
	for n, of := range map[int]struct {
		rope dinoRope
		want []float64
	}{
		1: {dinoRope{shortest: 3, longest: 7}, []float64{3}},
		2: {dinoRope{theta: 49}, []float64{1, 7}}, // the next is θ
		3: {dinoRope{theta: 100, shortest: 0.2, longest: 0.05}, []float64{0.2, 0.1, 0.05}},
	} {
		gomlxtest.NearAbs(t, fmt.Sprint(n), of.rope.periods(n), of.want, 1e-12)
	}
}

// One setting above 0 is enough to move the coordinates of a training step, and only those.
func TestDINOv3MovesInTrainingByEachSettingAlone(t *testing.T) {
	c := turning("rope-dinov3")
	for _, name := range []string{"none", ParamDINORopeShift, ParamDINORopeJitter, ParamDINORopeRescale} {
		angles := func(training bool) []float64 {
			store := gomlxtest.Seeded(t, 3)
			store.SetParams(map[string]any{ParamDINORopeRescale: 0.0})
			if name != "none" {
				store.SetParams(map[string]any{name: 0.5})
			}
			return gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
				s.Store().SetTraining(in[0].Graph(), training)
				_, sin := rotationOf(acting[Rotator](c, s.In("vit"))).pairs(in[0].Graph(), 0)
				return []*Node{sin}
			}, float32(0))[0]
		}
		if moved := !slices.Equal(angles(true), angles(false)); moved != (name != "none") {
			t.Errorf("%s = 0.5: moved %v", name, moved)
		}
	}
}
