// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/activation"
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

// normEpsilon is the ε of the LayerNorms over channels in pyramid and heads.
const normEpsilon = 1e-6

// torchConv is PyTorch's default initialization of a convolution with a fan-in.
func torchConv(fanIn int) weight.Fill { return weight.Uniform(1 / math.Sqrt(float64(fanIn))) }

// msra is He's initialization for ReLU by the fan-out, c2_msra_fill of detectron2.
func msra(fanOut int) weight.Fill { return weight.Normal(math.Sqrt(2 / float64(fanOut))) }

// xavier is Glorot's initialization by the fan-in, as in Caffe2, c2_xavier_fill.
func xavier(fanIn int) weight.Fill { return weight.Uniform(math.Sqrt(3 / float64(fanIn))) }

// conv3x3 is a 3×3 convolution with zero padding, [batch, rows, cols, in] -> [batch, rows, cols, out]; without biases
// if they are nil.
func conv3x3(scope *model.Scope, x *Node, out int, weights, biases weight.Fill) *Node {
	g, in := x.Graph(), x.Shape().Dim(-1)
	w := weight.Float32(scope, "weights", weights, 3, 3, in, out).NodeValue(g)
	var b *Node
	if biases != nil {
		b = weight.Float32(scope, "biases", biases, out).NodeValue(g)
	}
	return kernel.Conv3x3(x, w, b)
}

// double is a transposed 2×2 convolution of stride 2: [batch, rows, cols, in] -> [batch, 2·rows, 2·cols, out].
func double(scope *model.Scope, x *Node, out int, weights weight.Fill) *Node {
	g, d := x.Graph(), x.Shape().Dimensions
	w := weight.Float32(scope, "weights", weights, d[3], 2, 2, out).NodeValue(g)
	b := weight.Float32(scope, "biases", weight.Constant(0), out).NodeValue(g)
	y := kernel.Dense(x, Reshape(w, d[3], 4*out), nil) // [batch, rows, cols, 2·2·out]
	y = Reshape(y, d[0], d[1], d[2], 2, 2, out)
	y = TransposeAllAxes(y, 0, 1, 3, 2, 4, 5) // [batch, rows, 2, cols, 2, out]
	y = Reshape(y, d[0], 2*d[1], 2*d[2], out)
	return Add(y, ExpandLeftToRank(b, y.Rank()))
}

// norm normalizes the channels of each cell.
func norm(scope *model.Scope, x *Node) *Node { return weight.LayerNorm(scope, x, normEpsilon) }

// convStack is n times conv3x3, norm and ReLU, the start of box and mask heads.
func convStack(scope *model.Scope, x *Node, widths []int) *Node {
	for i, out := range widths {
		conv := scope.In("conv_%d", i)
		x = norm(conv.In("norm"), conv3x3(conv, x, out, msra(9*out), nil))
		x = activation.Relu(x)
	}
	return x
}
