// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dhvt

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
)

// daff is the dynamic aggregation feed-forward on x, [1+N, batch, width]. The convolutions skip the class token.
func (c Config) daff(scope *model.Scope, x *Node, see watch) *Node {
	init := c.initScheme()
	tokens := x.Shape().Dimensions[0]
	class, y := kernel.Crop(x, 0, 0, 1), kernel.Crop(x, 0, 1, tokens) // [1, batch, width], [N, batch, width]
	pointwise := func(scope *model.Scope, y *Node, out int) *Node {
		in := y.Shape().Dim(-1)
		y = weight.Dense(scope, y, out, init.conv(in, out), init.convBias(in))
		return batchNorm(scope.In("norm"), y)
	}
	y = pointwise(scope.In("hidden"), y, c.MLPDim) // [N, batch, mlpDim]
	see("mlp.bn1", y)
	shortcut := activation.Gelu(y)
	y = c.depthwise(scope.In("depthwise"), shortcut)
	see("mlp.bn2", y)
	y = pointwise(scope.In("output"), Add(shortcut, activation.Gelu(y)), c.Width) // [N, batch, width]
	see("mlp.bn3", y)

	squeezed := ReduceMean(y, 0)                                                                      // [batch, width]
	squeezed = weight.Dense(scope.In("squeeze"), squeezed, c.Width/4, init.dense, weight.Constant(0)) // [batch, width/4]
	see("mlp.compress", squeezed)
	gate := weight.Dense(scope.In("excite"), activation.Gelu(squeezed), c.Width, init.dense, weight.Constant(0))
	see("mlp.excitation", gate)
	class = Mul(class, InsertAxes(gate, 0))
	y = Concatenate([]*Node{class, y}, 0)
	see("mlp", y)
	return y
}

// depthwise convolves each channel of x, [N, batch, channels], with its own 3×3 weights and normalizes the result.
func (c Config) depthwise(scope *model.Scope, x *Node) *Node {
	g, d, init := x.Graph(), x.Shape().Dimensions, c.initScheme()
	w := weight.Float32(scope, "weights", init.conv(9, 9*d[2]), 3, 3, d[2]).NodeValue(g)
	b := weight.Float32(scope, "biases", init.convBias(9), d[2]).NodeValue(g)
	y := kernel.Depthwise3x3(Reshape(x, c.Rows(), c.Cols(), d[1], d[2]), w, b, 0)
	return batchNorm(scope.In("norm"), Reshape(y, d...))
}
