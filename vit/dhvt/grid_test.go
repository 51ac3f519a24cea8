// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestATransposedImageSeenThroughTransposedKernelsHasTheSameLogits(t *testing.T) {
	c := small("none")
	store := gomlxtest.Seeded(t, 9)
	want := logits(t, c, store, false)
	for v := range store.IterVariables() {
		d := v.Shape().Dimensions // of convolutions: [3, 3, …]
		if len(d) < 3 {
			continue
		}
		v.MustValue().MustMutableFlatData(func(flat any) {
			w := flat.([]float32)
			size := len(w) / 9
			for i := range 3 {
				for j := range i {
					for k := range size {
						a, b := (3*i+j)*size+k, (3*j+i)*size+k
						w[a], w[b] = w[b], w[a]
					}
				}
			}
		})
	}
	turned := c
	turned.ImageRows, turned.ImageCols = c.ImageCols, c.ImageRows
	got := run(t, store, func(s *model.Scope, in []*Node) []*Node {
		return []*Node{turned.Logits(s.In("dhvt"), TransposeAllAxes(in[0], 0, 2, 1, 3))}
	}, images(c, 3))[0]
	gomlxtest.Near(t, "logits", got, want, 1e-5)
}
