// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Multiples of 1/64 in ±1 and their sums are exact in float32; in 16 bits the sums are not.
func TestRowsOfABatchGetTheSumOfItsGradients(t *testing.T) {
	const batch, rows, width = 307, 3, 5
	noise := func(dims ...int) (*tensors.Tensor, []float64) {
		of := gomlxtest.Noise(dims...)
		return of, sixtyFourths(of)
	}
	x, _ := noise(1, rows, width)
	weights, dy := noise(batch, rows, width)
	want := make([]float64, rows*width)
	for i, v := range dy {
		want[i%len(want)] += v
	}
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
			y := Repeat(in[0], batch, dtype)
			back := graph.ConvertDType(graph.Mul(y, graph.ConvertDType(in[1], dtype)), dtypes.Float32)
			return append(graph.Gradient(graph.ReduceAllSum(back), in[0]),
				graph.Sub(graph.ConvertDType(y, dtypes.Float32), in[0]))
		}, x, weights)
		gomlxtest.NearAbs(t, dtype.String()+" gradient", got[0], want, 0)
		gomlxtest.NearAbs(t, dtype.String()+" difference from x", got[1], make([]float64, batch*rows*width), 0)
	}
}
