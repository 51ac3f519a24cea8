// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package outside

import (
	"context"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
)

// halves are images whose left or right half is white, computed when they are read.
type halves struct{ data.Info }

func newHalves(n int) *halves {
	h := &halves{data.Info{Name: "halves", Height: 8, Width: 8, Channels: 3, Classes: []string{"left", "right"}}}
	for i := range n {
		h.Labels = append(h.Labels, int32(i%2))
	}
	return h
}

// Image implements data.Dataset.
func (h *halves) Image(_ context.Context, row int) (*data.Image, error) {
	img := &data.Image{Height: 8, Width: 8, Pixels: make([]uint8, 8*8*3)}
	for i := range img.Pixels {
		if right := i/3%8 >= 4; right == (h.Labels[row] == 1) {
			img.Pixels[i] = uint8(200 + row)
		}
	}
	return img, nil
}

// The engine trains on it, evaluates it and finds its classes.
func TestTheEngineTrainsOnIt(t *testing.T) {
	backend, err := compute.NewWithConfig("go")
	if err != nil {
		t.Fatal(err)
	}
	recipe, err := finetune.RecipeByName("shapes")
	if err != nil {
		t.Fatal(err)
	}
	recipe.Epochs, recipe.BatchSize, recipe.EvalBatchSize, recipe.WarmupEpochs = 1, 8, 8, 0
	recipe.Model.PatchSize, recipe.Model.Depth, recipe.Model.Width, recipe.Model.Heads, recipe.Model.MLPDim = 4, 1, 12, 1,
		12
	source := newHalves(34)
	run := finetune.Run{Backend: backend, Recipe: recipe, Train: source, Test: source}
	m, result, err := run.Do(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if result.Test.Images != 34 || !slices.Equal(m.Classes, source.Classes) {
		t.Errorf("result %+v of classes %v", result.Test, m.Classes)
	}
}
