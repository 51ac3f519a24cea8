// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The expected values are autodiff's of the plain product. The batch of the factors is 1, with the explicit gradient,
// or the input's, without it.
func TestRescaleIsAProduct(t *testing.T) {
	for _, batch := range []int{1, 3} {
		run := func(rescale func(x, m *graph.Node) *graph.Node) [][]float64 {
			return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
				y := rescale(graph.Sin(in[0]), graph.Square(in[1]))
				return append(graph.Gradient(graph.ReduceAllSum(graph.Sin(y)), in...), y)
			}, gomlxtest.Noise(3, 5, 7), gomlxtest.Noise(batch, 5, 7))
		}
		want := run(graph.Mul)
		for i, got := range run(Rescale) {
			gomlxtest.Near(t, fmt.Sprint("batch ", batch, " output ", i), got, want[i], 1e-6)
		}
	}
}

// A zero factor hides the input from the output: its gradient is zero, not NaN.
func TestRescaleByZeroIsFinite(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		m := graph.MulScalar(in[1], 0)
		return graph.Gradient(graph.ReduceAllSum(Rescale(in[0], m)), in[0], m)
	}, gomlxtest.Noise(3, 5), gomlxtest.Noise(1, 5))
	for i := range got {
		gomlxtest.Near(t, fmt.Sprint("gradient ", i), got[i], make([]float64, len(got[i])), 0)
	}
}
