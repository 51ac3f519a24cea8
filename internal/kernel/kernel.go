// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package kernel has the functions of a transformer whose gradients are written out, because autodiff turns them into
// many operations of the size of their input, and matrix products whose gradients are matrix products. Values and
// gradients equal those of the plain functions up to rounding.
package kernel

import (
	"math"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
)

// withGradient is forward(x) with a gradient of its own: backward takes dy, of the shape of the value, and returns
// dx; y is the value, if it is asked for.
//
// It is the route by which GoMLX differentiates its fused operations: the gradient of the value is handed, whatever its
// shape, to the node that stands for it, here x itself with a custom gradient. What autodiff would have built is never
// built, which matters: ONNX Runtime runs nodes that nobody reads. Between checkpoints of a graph (Node.Checkpoint) the
// gradient is told another x, computed again: then the value is too, so that nothing of the first is kept for it.
func withGradient(x *Node, forward func(x *Node) *Node, backward func(x *Node, y func() *Node, dy *Node) *Node) *Node {
	var first, value *Node
	first = IdentityWithCustomGradient(x, func(x, dy *Node) *Node {
		return backward(x, func() *Node {
			if x != first {
				return forward(x)
			}
			return value
		}, dy)
	})
	y, _ := InternalFusedOpCallerMulti(
		func() []*Node {
			value = forward(first)
			return []*Node{value}
		},
		func() []*Node { return []*Node{first} }, true)
	return y[0]
}

// Gelu is x·Φ(x), Φ the normal distribution function. Its derivative is Φ(x) + x·φ(x), φ = Φ′.
func Gelu(x *Node) *Node {
	return withGradient(x, func(x *Node) *Node {
		y, _ := InternalFusedOpCaller(func() *Node { return BackendFusedGelu(x, true) },
			func() *Node { return MulScalar(Mul(x, twiceCDF(x)), 0.5) }, false)
		return y
	}, func(x *Node, value func() *Node, dy *Node) *Node {
		density := MulScalar(Exp(MulScalar(Square(x), -0.5)), 1/math.Sqrt(2*math.Pi))
		return Mul(dy, Add(normalCDF(x, value()), Mul(x, density)))
	})
}

// normalCDF is Φ(x), given x·Φ(x). A backend without an operation of its own for that has computed it on the way and
// does so once. Others hide it, and a quotient is cheaper than another erf.
func normalCDF(x, gelu *Node) *Node {
	if !x.Graph().Backend().Capabilities().Operations[compute.OpTypeFusedGelu] {
		return MulScalar(twiceCDF(x), 0.5)
	}
	return Where(Equal(x, ZerosLike(x)), MulScalar(OnesLike(x), 0.5), Div(gelu, x))
}

// twiceCDF is 2Φ(x). In a forward pass ONNX Runtime knows GELU by this quotient, sum and order of factors.
func twiceCDF(x *Node) *Node {
	return AddScalar(Erf(Div(x, Scalar(x.Graph(), x.DType(), math.Sqrt2))), 1)
}

// ScaledSoftmax is the softmax of scale·x over the last axis, y. Its gradient is scale·y·(dy - Σ dy·y).
func ScaledSoftmax(x *Node, scale float64) *Node {
	forward := func(x *Node) *Node { return Softmax(MulScalar(x, scale), -1) }
	return withGradient(x, forward, func(_ *Node, value func() *Node, dy *Node) *Node {
		y := value()
		mean := ReduceAndKeep(Mul(dy, y), ReduceSum, -1)
		return Mul(Sub(dy, mean), MulScalar(y, scale))
	})
}

// Normalize is the last axis of x less its mean, over the root of its variance + epsilon, y. Its gradient is
// (dy - mean(dy) - y·mean(dy·y)) over the same root.
func Normalize(x *Node, epsilon float64) *Node {
	mean := func(x *Node) *Node { return ReduceAndKeep(x, ReduceMean, -1) }
	parts := func(x *Node) (centered, scale *Node) {
		centered = Sub(x, mean(x))
		return centered, Inverse(Sqrt(AddScalar(mean(Square(centered)), epsilon)))
	}
	return withGradient(x, func(x *Node) *Node {
		y, _ := InternalFusedOpCaller(
			func() *Node { return BackendFusedLayerNorm(x, []int{-1}, epsilon, nil, nil) },
			func() *Node { return Mul(parts(x)) }, false)
		return y
	}, func(x *Node, value func() *Node, dy *Node) *Node {
		_, scale := parts(x)
		y := value()
		return Mul(Sub(Sub(dy, mean(dy)), Mul(y, mean(Mul(dy, y)))), scale)
	})
}
