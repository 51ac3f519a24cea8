// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// torch's BCEWithLogitsLoss on targets.gt(0), as DeiT-III calls it, by hand: log(1+eˣ) − t·x, the mean over all.
func TestBCEAsksForEveryClassThatAnImageHasAPartOf(t *testing.T) {
	targets := [][]float32{{0, 1e-4, 0.7}, {1, 0, 0}} // however small
	logits := [][]float32{{-2, 0.5, 3}, {40, -60, 0}}
	want := 0.0
	for i, row := range logits {
		for k, x := range row {
			want += math.Max(float64(x), 0) + math.Log1p(math.Exp(-math.Abs(float64(x))))
			if targets[i][k] > 0 {
				want -= float64(x)
			}
		}
	}
	got := gomlxtest.Run(t, func(in []*Node) []*Node {
		return []*Node{Recipe{Loss: lossBCE}.loss(in[0], in[1])}
	}, targets, logits)[0]
	gomlxtest.Near(t, "bce", got, []float64{want / 6}, 1e-6)
	for _, settings := range []string{"loss=mse", "loss=bce;smoothing=0.1"} {
		r := gomlxtest.Must(tiny().Set(settings))(t)
		if err := r.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), `want "bce" with none`) {
			t.Errorf("%s: %v", settings, err)
		}
	}
}
