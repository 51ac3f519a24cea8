// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The expected values are GoMLX's own slices and convolution, differentiated by autodiff.
func TestCropsAndConvolutionsAreThoseOfGoMLX(t *testing.T) {
	if gomlxtest.Backend().Name() == "onnxruntime" {
		t.Skip("has no gradient of a slice")
	}
	for _, c := range []struct {
		name       string
		ours, want func(x, weights *graph.Node) *graph.Node // [2, 5, 7, 3], [3, 3, 3, 4]
	}{
		{"crop", func(x, _ *graph.Node) *graph.Node { return Crop(x, 2, 1, 5) },
			func(x, _ *graph.Node) *graph.Node { return graph.SliceAxis(x, 2, graph.AxisRange(1, 5)) }},
		{"last", func(x, _ *graph.Node) *graph.Node { return Crop(x, 1, 3, 5) },
			func(x, _ *graph.Node) *graph.Node { return graph.SliceAxis(x, 1, graph.AxisRange(3, 5)) }},
		{"convolution", func(x, weights *graph.Node) *graph.Node {
			return Conv3x3(x, weights, nil)
		}, func(x, weights *graph.Node) *graph.Node { return graph.Convolve(x, weights).PadSame().Done() }},
	} {
		run := func(f func(x, weights *graph.Node) *graph.Node) [][]float64 {
			return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
				x, weights := in[0], in[1]
				y := f(x, weights)
				loss := graph.ReduceAllSum(graph.Mul(y, graph.Square(graph.AddScalar(y, 1))))
				return append([]*graph.Node{y}, graph.Gradient(loss, x, weights)...)
			}, gomlxtest.Noise(2, 5, 7, 3), gomlxtest.Noise(3, 3, 3, 4))
		}
		got, want := run(c.ours), run(c.want)
		for i, what := range []string{"value", "gradient", "gradient of weights"} {
			gomlxtest.Near(t, c.name+" "+what, got[i], want[i], 1e-6)
		}
	}
}
