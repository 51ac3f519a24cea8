// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package weight

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
)

// Linear is a dense layer. Its variables exist from the start, so that it can be applied more than once in a graph.
type Linear struct {
	Weights *model.Variable // [in, out]
	Biases  *model.Variable // [out], nil without
	store   *model.Store
}

// NewLinear creates the variables "weights" and, unless biases is nil, "biases" of a dense layer.
func NewLinear(scope *model.Scope, in, out int, weights, biases Fill) Linear {
	l := Linear{Weights: Float32(scope, "weights", weights, in, out), store: scope.Store()}
	if biases != nil {
		l.Biases = Float32(scope, "biases", biases, out)
	}
	return l
}

// Apply is x·weights + biases on the last axis, computed in the type of x from float32 variables, with the adapter
// of Adapt if there is one.
func (l Linear) Apply(x *Node) *Node {
	g := x.Graph()
	var b *Node
	if l.Biases != nil {
		b = ConvertDType(l.Biases.NodeValue(g), x.DType()) // [out]
	}
	return adapted(l.store, l.Weights, x, kernel.Dense(x, ConvertDType(l.Weights.NodeValue(g), x.DType()), b))
}

// Dense is a Linear with as many inputs as the last axis of x, applied.
func Dense(scope *model.Scope, x *Node, out int, weights, biases Fill) *Node {
	return NewLinear(scope, x.Shape().Dim(-1), out, weights, biases).Apply(x)
}

// Norm is a LayerNorm.
type Norm struct{ Gain, Offset *model.Variable } // [width]

// NewNorm creates the variables "gain", 1 at first, and "offset", 0.
func NewNorm(scope *model.Scope, width int) Norm {
	return Norm{Float32(scope, "gain", Constant(1), width), Float32(scope, "offset", Constant(0), width)}
}

// Apply normalizes the last axis in float32 and returns the type of x.
func (n Norm) Apply(x *Node, epsilon float64) *Node {
	y := kernel.Normalize(ConvertDType(x, dtypes.Float32), epsilon)
	return ConvertDType(kernel.Affine(y, n.Gain.NodeValue(x.Graph()), n.Offset.NodeValue(x.Graph())), x.DType())
}

// LayerNorm is a Norm, applied.
func LayerNorm(scope *model.Scope, x *Node, epsilon float64) *Node {
	return NewNorm(scope, x.Shape().Dim(-1)).Apply(x, epsilon)
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
