// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Each of two encodings in a model acts as it does alone: with the weights of a model with one encoding, and the other
// one zeroed, the logits are the same.
func TestEachOfTwoEncodingsActsAsAlone(t *testing.T) {
	c := small("learned+rope-mixed", poolClass)
	joined := weights(t, c, 7)
	drawn := model.NewStore()
	c.Encoder(drawn.Scope("/vit"))
	silence := func(variables ...string) []float64 {
		store := gomlxtest.Seeded(t, 7)
		for _, v := range variables {
			path := "/vit/position/" + v
			if _, err := store.CreateVariable(path, tensors.FromFlatDataAndDimensions(
				make([]float32, len(joined[path])), drawn.GetVariable(path).Shape().Dimensions...)); err != nil {
				t.Fatal(err)
			}
		}
		return logitsOf(t, store, c, noise(c, 2))
	}
	both := silence()
	for alone, silent := range map[string][]string{
		"learned":    {"rope_mixed/block_00/frequencies", "rope_mixed/block_01/frequencies"},
		"rope-mixed": {"embedding"},
	} {
		one := small(alone, poolClass)
		want := logitsOf(t, gomlxtest.Seeded(t, 7), one, noise(one, 2))
		gomlxtest.Near(t, alone, silence(silent...), want, 1e-6)
		if slices.Equal(both, want) {
			t.Errorf("the other encoding changes nothing about %s", alone)
		}
		for path, values := range weights(t, one, 7) {
			if !slices.Equal(joined[path], values) {
				t.Errorf("%s starts elsewhere than alone", path)
			}
		}
	}
}
