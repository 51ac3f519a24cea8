// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/vit"
)

func nearLogits(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	if d, scale := numeric.Difference(slices.Concat(got...), slices.Concat(want...)); d > 1e-5*scale {
		t.Errorf("%s: logits differ by %g of %g", what, d, scale)
	}
}

func TestLook_ReturnsWeightsAndLogitsOfEveryImageOnce(t *testing.T) {
	for _, pool := range []string{"class", "mean"} {
		recipe := tiny()
		recipe.Model.Position, recipe.Model.Pool = "rope-axial", pool // nothing is added to the tokens
		m := begun(t, Run{Backend: gomlxtest.Backend(), Recipe: recipe, Seed: 1, Train: dataset(47, 1)}).model
		set := dataset(7, 9)
		var logits [][]float32
		tokens := m.Recipe.Model.Tokens()
		err := m.Activations(set, 3, func(t *vit.Trace) []*Node { return []*Node{t.Blocks[1].Weights} },
			func(first int, values [][]float32) error {
				n := len(values[1]) / len(set.Classes)
				if first != len(logits) || len(values[0]) != n*recipe.Model.Heads*tokens*tokens {
					t.Fatalf("image %d after %d, %d weights of %d images", first, len(logits), len(values[0]), n)
				}
				for row := range slices.Chunk(values[0], tokens) {
					sum := 0.0
					for _, w := range row {
						sum += float64(w)
					}
					if !(math.Abs(sum-1) <= 1e-5) {
						t.Fatalf("a row of weights has the sum %g", sum)
					}
				}
				logits = slices.AppendSeq(logits, slices.Chunk(values[1], len(set.Classes)))
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		nearLogits(t, pool, logits, gomlxtest.Must(m.logitsOf(set))(t))
	}
}
