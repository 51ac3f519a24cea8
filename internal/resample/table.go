// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package resample

import . "github.com/gomlx/gomlx/core/graph"

// Table resamples a table [·, ·, channels] of any grid to rows × cols, row by row, with the taps of Clamped for Linear
// or TorchCubic: [rows·cols, channels].
func Table(x *Node, kernel func(distance float64) float64, rows, cols int) *Node {
	x = Axis(x, kernel, rows)                            // [rows, ·, channels]
	x = Axis(TransposeAllAxes(x, 1, 0, 2), kernel, cols) // [cols, rows, channels]
	return Reshape(TransposeAllAxes(x, 1, 0, 2), rows*cols, -1)
}

// Axis resamples the first axis of x [n, …] to m positions by a product with constant weights, which has a gradient on
// every backend, unlike Interpolate.
func Axis(x *Node, kernel func(distance float64) float64, m int) *Node {
	dims := append([]int{m}, x.Shape().Dimensions[1:]...)
	n := x.Shape().Dim(0)
	if n == m {
		return x
	}
	weights := make([]float32, m*n)
	for i, t := range Clamped(n, m, 0, kernel, 2) {
		for j, w := range t.Weights {
			weights[i*n+t.First+j] = float32(w)
		}
	}
	return Reshape(MatMul(Reshape(Const(x.Graph(), weights), m, n), Reshape(x, n, -1)), dims...)
}
