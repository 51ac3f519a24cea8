// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package kernel contains functions of a transformer with explicit gradients, because autodiff turns them into many
// operations of the size of their input, and matrix products whose gradients are matrix products. Values and gradients
// equal those of the plain functions up to rounding. The gradient of ℘ is in wepe/internal/elliptic/cell.go.
package kernel

import (
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"
)

// withGradient is forward(x) with an explicit gradient: backward takes dy, of the shape of the value, and returns dx; y
// is the value, on request.
//
// It uses GoMLX's mechanism for fused operations: the gradient of the value is passed to the node that stands for it,
// whatever its shape, here x itself with a custom gradient. So autodiff's own gradient is never built; ONNX Runtime
// would run it even unused. Between checkpoints of a graph (Node.Checkpoint) the gradient receives another, recomputed
// x: then it recomputes the value too, so that nothing of the first is stored.
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
	return differentiatedAs([]*Node{first}, func() []*Node {
		value = forward(first)
		return []*Node{value}
	})[0]
}

// differentiatedAs returns the values of forward with the gradients of other nodes, stands.
func differentiatedAs(stands []*Node, forward func() []*Node) []*Node {
	y, built := InternalFusedOpCallerMulti(forward, func() []*Node { return stands }, true)
	if !built {
		exceptions.Panicf("kernel: the backend %s lacks an operation", stands[0].Graph().Backend().Name())
	}
	return y
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

// normalCDF is Φ(x), given x·Φ(x). A backend without a GELU operation has computed it on the way and does so once. For
// others a quotient is cheaper than another erf.
func normalCDF(x, gelu *Node) *Node {
	if !x.Graph().Backend().Capabilities().Operations[compute.OpTypeFusedGelu] {
		return MulScalar(twiceCDF(x), 0.5)
	}
	return Where(Equal(x, ZerosLike(x)), MulScalar(OnesLike(x), 0.5), Div(gelu, x))
}

// twiceCDF is 2Φ(x). ONNX Runtime recognizes GELU in a forward pass by this quotient, sum and order of factors.
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

// Normalize is the last axis of x minus its mean, divided by the root of its variance + epsilon, y. Its gradient is (dy
// - mean(dy) - y·mean(dy·y)), divided by the same root.
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

// Mix is the product of weights [..., n, k] and x [..., k, m] of equal leading axes without a gradient for the weights,
// which autodiff would build and ONNX Runtime would run even unused.
func Mix(weights, x *Node) *Node {
	return withGradient(x, func(x *Node) *Node { return MatMul(weights, x) },
		func(_ *Node, _ func() *Node, dy *Node) *Node { return MatMul(Transpose(weights, -1, -2), dy) })
}

// Once returns xs as nodes that a compiler computes once. XLA copies cheap operations into every kernel that reads
// them: a long formula with many results has its beginning copied many times.
func Once(xs ...*Node) []*Node {
	if xs[0].Graph().Backend().Name() != "xla" {
		return xs
	}
	return OptimizationBarriers(xs...)
}

// Several is a function of several inputs, of the shape of the first or scalars, with several values and explicit
// gradients: backward takes the gradient of the i-th value and returns that of each input, in order. As with the other
// functions here, gradients are only built on request.
func Several(inputs []*Node, values int, forward func() []*Node, backward func(i int, dy *Node) []*Node) []*Node {
	stands := make([]*Node, values) // for the values, as in withGradient
	for i := range stands {
		var gradients []*Node
		var all *Node // a node whose gradient reaches every input
		for j, x := range inputs {
			x = IdentityWithCustomGradient(x, func(_, _ *Node) *Node { return gradients[j] })
			if all == nil {
				all = x
			} else {
				all = Add(all, x)
			}
		}
		stands[i] = IdentityWithCustomGradient(all, func(_, dy *Node) *Node {
			gradients = backward(i, dy)
			return gradients[0]
		})
	}
	return differentiatedAs(stands, forward)
}

// Unstack returns the elements of x along its first axis. Its gradient is a Stack; autodiff's is a sum of as many
// padded arrays of the size of x.
func Unstack(x *Node) []*Node {
	dims := x.Shape().Dimensions
	gradients, stands := make([]*Node, dims[0]), make([]*Node, dims[0])
	all := IdentityWithCustomGradient(x, func(_, _ *Node) *Node {
		each := slices.Clone(gradients)
		clear(gradients) // another gradient in this graph may not reach all elements
		for i, dy := range each {
			if dy == nil {
				each[i] = Zeros(x.Graph(), shapes.Make(x.DType(), dims[1:]...))
			}
		}
		return Stack(each, 0)
	})
	for i := range stands {
		stands[i] = IdentityWithCustomGradient(all, func(x, dy *Node) *Node {
			gradients[i] = dy
			return x // of the right shape, and unused
		})
	}
	return differentiatedAs(stands, func() []*Node {
		parts := make([]*Node, dims[0])
		for i := range parts {
			parts[i] = Reshape(SliceAxis(x, 0, AxisElem(i)), dims[1:]...)
		}
		return parts
	})
}
