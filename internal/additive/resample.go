// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package additive

import (
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/internal/resample"
)

// Linear and Cubic weight an old position by its distance from a new one, in old positions: the hat, and torch's cubic.
func Linear(distance float64) float64 { return max(0, 1-math.Abs(distance)) }
func Cubic(distance float64) float64  { return resample.Cubic(distance, -0.75) }

// Resample resamples the first axis of x [n, …] to m positions and returns the first of them, [keep, …], by a product
// with constant weights, which has a gradient on every backend, unlike Interpolate.
func Resample(x *Node, kernel func(distance float64) float64, m, keep int) *Node {
	d := slices.Clone(x.Shape().Dimensions)
	n := d[0]
	if n == m && m == keep {
		return x
	}
	weights := make([]float32, keep*n)
	for i := range keep {
		centre := (float64(i)+0.5)*float64(n)/float64(m) - 0.5
		for k := math.Floor(centre) - 1; k < centre+2; k++ {
			place := min(max(int(k), 0), n-1)
			weights[i*n+place] += float32(kernel(centre - k))
		}
	}
	d[0] = keep
	return Reshape(MatMul(Reshape(Const(x.Graph(), weights), keep, n), Reshape(x, n, -1)), d...)
}
