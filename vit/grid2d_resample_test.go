// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit_test

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// The tests of package checkpoints compare Resample's kernels with torch's.
func TestGrid2DResamplesAsCheckpointsDo(t *testing.T) {
	const rows, cols, width = 7, 4, 6
	for kernel, kind := range map[string]string{
		"bilinear": "bilinear", "bicubic": "hf",
	} {
		for _, grid := range [][2]int{
			{5, 11}, {14, 3}, {7, 4}, {1, 1},
		} {
			c := vit.Config{
				ImageRows: grid[0], ImageCols: grid[1], PatchSize: 1, Width: width, Depth: 1, Heads: 2, Classes: 3,
				Position: "grid2d",
			}
			old := make([]float32, (1+rows*cols)*width) // class token first
			for i := range old {
				old[i] = float32(math.Sin(float64(i * i)))
			}
			store := model.NewStore()
			store.SetParams(map[string]any{"grid2d_rows": rows, "grid2d_cols": cols,
				"grid2d_kernel": kernel})
			for path, x := range map[string]*tensors.Tensor{
				"/vit/position/grid2d/prefix": tensors.FromFlatDataAndDimensions(old[:width], 1, width),
				"/vit/norm/gain":              tensors.FromScalarAndDimensions(float32(1), width), // a model to fold
				"/vit/position/grid2d/table":  tensors.FromFlatDataAndDimensions(old[width:], rows, cols, width),
			} {
				if _, err := store.CreateVariable(path, x); err != nil {
					t.Fatal(err)
				}
			}
			folded, _, err := c.Fold(gomlxtest.Backend(), store.Scope("/vit"))
			if err != nil {
				t.Fatal(err)
			}
			table := folded.GetVariable("/vit/position/embedding").MustValue()
			want, _, err := checkpoints.Resample(old, width, 1, [2]int{rows, cols}, grid, kind)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range gomlxtest.Values(t, table) {
				if !(math.Abs(got-float64(want[i])) <= 1e-6) {
					t.Fatalf("%s, %v: element %d is %g, want %g", kernel, grid, i, got, want[i])
				}
			}
		}
	}
}
