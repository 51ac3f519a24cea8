// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weight

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
)

// Dense is x·weights + biases on the last axis, computed in the type of x from float32 variables; without biases if
// they are nil, with the adapter of LowRank if there is one.
func Dense(scope *model.Scope, x *Node, out int, weights, biases Fill) *Node {
	g := x.Graph()
	in := x.Shape().Dim(-1)
	w := Float32(scope, "weights", weights, in, out) // [in, out]
	var b *Node
	if biases != nil {
		b = ConvertDType(Float32(scope, "biases", biases, out).NodeValue(g), x.DType()) // [out]
	}
	return adapted(scope, w, x, kernel.Dense(x, ConvertDType(w.NodeValue(g), x.DType()), b))
}

// LayerNorm normalizes the last axis in float32 and returns the type of x.
func LayerNorm(scope *model.Scope, x *Node, epsilon float64) *Node {
	g := x.Graph()
	width := x.Shape().Dim(-1)
	gain := Float32(scope, "gain", Constant(1), width).NodeValue(g)     // [width]
	offset := Float32(scope, "offset", Constant(0), width).NodeValue(g) // [width]
	y := kernel.Normalize(ConvertDType(x, dtypes.Float32), epsilon)
	return ConvertDType(kernel.Affine(y, gain, offset), x.DType())
}

// RMSNorm divides the last axis by the root of its mean square + epsilon in float32 and returns the type of x.
func RMSNorm(scope *model.Scope, x *Node, epsilon float64) *Node {
	wide := ConvertDType(x, dtypes.Float32)
	gain := Float32(scope, "gain", Constant(1), x.Shape().Dim(-1)).NodeValue(x.Graph()) // [width]
	scale := Inverse(Sqrt(AddScalar(ReduceAndKeep(Square(wide), ReduceMean, -1), epsilon)))
	return ConvertDType(Mul(Mul(wide, scale), ExpandLeftToRank(gain, x.Rank())), x.DType())
}

// DropBranch drops whole residual branches, independently for each image along the batch axis (stochastic depth), and
// rescales the others, as timm does; GoMLX's layers.DropPath does not rescale. The rate is that of the last of depth
// blocks; block i has i/(depth-1) of it.
func DropBranch(scope *model.Scope, x *Node, batchAxis int, rate float64, block, depth int) *Node {
	g := x.Graph()
	if block == 0 || rate == 0 || !scope.IsTraining(g) {
		return x
	}
	rate = rate * float64(block) / float64(depth-1)
	shape := shapes.Make(dtypes.Float32, x.Shape().Dimensions...)
	for axis := range shape.Dimensions {
		if axis != batchAxis {
			shape.Dimensions[axis] = 1
		}
	}
	// In 32 bits: half precision would round the rate and the factor.
	keep := scope.RandomBernoulli(Scalar(g, dtypes.Float32, 1-rate), shape)
	return ConvertDType(Mul(ConvertDType(x, dtypes.Float32), MulScalar(keep, 1/(1-rate))), x.DType())
}
