// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
)

// bottleneck is ViTDet's other way to let windows exchange what they know, behind a block on tokens [batch, N, width]:
// a residual branch of half the width.
func (b Backbone) bottleneck(scope *model.Scope, x *Node) *Node {
	map4 := Reshape(x, -1, b.Rows(), b.Cols(), b.Width)
	return Reshape(bottleneck(scope, map4, b.Width/2), x.Shape().Dimensions...)
}

// bottleneck is x + norm(1×1(gelu(norm(3×3(gelu(norm(1×1(x)))))))) with inner channels between the 1×1 convolutions,
// none of which has a bias. The gain of the last norm is zero at the start: so is the branch.
func bottleneck(scope *model.Scope, x *Node, inner int) *Node {
	width := x.Shape().Dim(-1)
	narrow, middle, wide := scope.In("conv_0"), scope.In("conv_1"), scope.In("conv_2")
	y := weight.Dense(narrow, x, inner, msra(inner), nil)
	y = kernel.Gelu(norm(narrow.In("norm"), y))
	y = conv3x3(middle, y, inner, msra(9*inner), nil)
	y = kernel.Gelu(norm(middle.In("norm"), y))
	y = weight.Dense(wide, y, width, msra(width), nil)
	last := wide.In("norm")
	weight.Float32(last, "gain", weight.Constant(0), width)
	return Add(x, norm(last, y))
}
