// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
)

// pyramid is ViTDet's simple feature pyramid of a map [batch, rows, cols, width]: maps with 4, 2, 1 and ½ times its
// resolution, each computed from it alone, and every second cell of the last one,
//
//	×4  transposed convolution to width/2, LayerNorm, GELU, transposed convolution to width/4
//	×2  transposed convolution to width/2
//	×1  unchanged
//	×½  the maximum of 2×2 cells
//
// then for each a 1×1 and a 3×3 convolution to channels, each followed by a LayerNorm: [batch, ·, ·, channels].
func pyramid(scope *model.Scope, x *Node, channels int) []*Node {
	width := x.Shape().Dim(-1)
	level := func(name string, up ...int) *Node {
		scope := scope.In("%s", name)
		y := x
		for i, out := range up {
			if i > 0 {
				y = kernel.Gelu(norm(scope.In("up_norm"), y))
			}
			y = double(scope.In("up_%d", i), y, out, torchConv(4*out))
		}
		if name == "half" {
			y = halve(y)
		}
		lateral, output := scope.In("lateral"), scope.In("output")
		y = weight.Dense(lateral, y, channels, torchConv(y.Shape().Dim(-1)), nil)
		y = norm(lateral.In("norm"), y)
		return norm(output.In("norm"), conv3x3(output, y, channels, torchConv(9*channels), nil))
	}
	levels := []*Node{level("quadruple", width/2, width/4), level("double", width/2), level("same"), level("half")}
	return append(levels, everySecond(levels[3]))
}

// halve returns the maximum of each 2×2 cells; the last row or column of an odd number is dropped.
func halve(x *Node) *Node {
	d := x.Shape().Dimensions
	rows, cols := d[1]/2, d[2]/2
	x = kernel.Crop(kernel.Crop(x, 1, 0, 2*rows), 2, 0, 2*cols)
	return ReduceMax(Reshape(x, d[0], rows, 2, cols, 2, d[3]), 2, 4)
}

// everySecond returns every second cell of every second row, starting with the first.
func everySecond(x *Node) *Node {
	d := x.Shape().Dimensions
	rows, cols := (d[1]+1)/2, (d[2]+1)/2
	x = kernel.ZeroPad(kernel.ZeroPad(x, 1, 0, 2*rows-d[1]), 2, 0, 2*cols-d[2])
	x = Reshape(x, d[0], rows, 2, cols, 2, d[3])
	return Reshape(kernel.Crop(kernel.Crop(x, 2, 0, 1), 4, 0, 1), d[0], rows, cols, d[3])
}
