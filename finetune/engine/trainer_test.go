// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The draws of a micro-batch depend on its step and index, not on the process.
func TestEveryPartOfEveryStepHasItsOwnDropout(t *testing.T) {
	draws := func(step, part int) []float64 {
		trainer := NewTrainer(Training{Store: model.NewStore(), Accumulate: 3})
		trainer.step = step
		if err := trainer.stream(part); err != nil {
			t.Fatal(err)
		}
		return gomlxtest.RunModel(t, trainer.Store, func(scope *model.Scope, in []*graph.Node) []*graph.Node {
			return []*graph.Node{scope.RandomUniform(in[0].Graph(), shapes.Make(dtypes.Float32, 7))}
		}, float32(0))[0]
	}
	seen := map[float64]string{}
	for _, at := range [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}} {
		got := draws(at[0], at[1])
		if !slices.Equal(got, draws(at[0], at[1])) {
			t.Errorf("step %d, part %d: two processes draw differently", at[0], at[1])
		}
		for _, v := range got {
			if other, twice := seen[v]; twice {
				t.Errorf("step %d, part %d draws %g, as %s does", at[0], at[1], v, other)
			}
			seen[v] = fmt.Sprint(at)
		}
	}
}
