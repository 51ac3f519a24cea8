// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// replaceGradients is forward(inputs), where backward(i, dy) replaces autodiff's gradient for input i; nil in backward
// keeps autodiff's.
//
// It uses three identities, so nothing outside these nodes changes: one on the value receives dy first, and one on each
// input replaces autodiff's gradient by its own. The replaced gradient is not computed, because no output depends on
// it, except on ONNX Runtime, which computes every node: there all gradients stay autodiff's. So do those of a
// computation repeated between checkpoints (Node.Checkpoint), where autodiff passes other nodes than these, and of
// 16-bit types, for which autodiff multiplies in float32. XLA's products of 16-bit types accumulate in float32: there
// they are products of 16-bit types, as with torch's autocast, and a step on a GPU takes three quarters of the time.
func replaceGradients(inputs []*Node, forward func(inputs []*Node) *Node, backward ...func(dy *Node) *Node) *Node {
	backend := inputs[0].Graph().Backend().Name()
	if inputs[0].DType().IsHalfPrecision() && backend != "xla" || backend == "onnxruntime" {
		return forward(inputs)
	}
	var value, dy *Node // dy stays nil between checkpoints
	watched := slices.Clone(inputs)
	for i, x := range inputs {
		if backward[i] == nil {
			continue
		}
		watched[i] = IdentityWithCustomGradient(x, func(_, dx *Node) *Node {
			if dy == nil {
				return dx
			}
			return backward[i](dy)
		})
	}
	value = IdentityWithCustomGradient(forward(watched), func(y, v *Node) *Node {
		if dy = nil; y == value {
			dy = v
		}
		return v
	})
	return value
}

// Product is a·b over a [..., n, k] and b [..., k, m] of equal leading axes.
//
// For y = a·b autodiff contracts the last axes of dy and b and the next-to-last axes of a and dy. The pure-Go backend
// computes such products with a horizontal sum for every value, and ONNX Runtime as Einsum, slower than MatMul
// (docs/evidence/upstream.md). Here the gradients are dy·bᵀ and aᵀ·dy with explicit transposes; the smaller tensors are
// transposed, because the pure-Go backend copies them.
func Product(a, b *Node) *Node {
	return replaceGradients([]*Node{a, b}, func(in []*Node) *Node { return MatMul(in[0], in[1]) },
		func(dy *Node) *Node { return Product(dy, Transpose(b, -1, -2)) },
		func(dy *Node) *Node {
			if a.Shape().Size() > dy.Shape().Size()+b.Shape().Size() {
				return Transpose(Product(Transpose(dy, -1, -2), a), -1, -2)
			}
			return Product(Transpose(a, -1, -2), dy)
		})
}

// addRow is x [n, m] + row [m], and mulRow is x·row. Autodiff sums over n in their gradients; here this sum is a
// product with ones, which takes a seventh of the time on the pure-Go backend.
func addRow(x, row *Node) *Node {
	return replaceGradients([]*Node{x, InsertAxes(row, 0)}, func(in []*Node) *Node { return Add(in[0], in[1]) },
		nil, sumRows)
}

func mulRow(x, row *Node) *Node {
	return replaceGradients([]*Node{x, InsertAxes(row, 0)}, func(in []*Node) *Node { return Mul(in[0], in[1]) },
		nil, func(dy *Node) *Node { return sumRows(Mul(dy, x)) })
}

// sumRows sums [n, m] to [1, m].
func sumRows(x *Node) *Node {
	return Product(Ones(x.Graph(), shapes.Make(x.DType(), 1, x.Shape().Dim(0))), x)
}

// Affine is x·gain + offset on the last axis.
func Affine(x, gain, offset *Node) *Node {
	y := addRow(mulRow(Reshape(x, -1, x.Shape().Dim(-1)), gain), offset)
	return Reshape(y, x.Shape().Dimensions...)
}

// Dense is x·weights + biases over x [..., in], weights [in, out] and biases [out] or nil.
func Dense(x, weights, biases *Node) *Node {
	plain := func() *Node {
		out := x.Shape().Clone()
		in := out.Dim(-1)
		out.Dimensions[out.Rank()-1] = weights.Shape().Dim(-1)
		y := Product(Reshape(x, -1, in), weights)
		if biases != nil {
			y = addRow(y, biases) // before the rows get their axes back: ONNX Runtime adds within the product
		}
		return Reshape(y, out.Dimensions...)
	}
	y, _ := InternalFusedOpCaller(
		func() *Node { return BackendFusedDense(x, weights, biases, compute.DenseConfig{}) }, plain, true)
	return y
}

// Repeat is x [1, ...] for each image of a batch, [batch, ...] in another type. Its gradient sums over the batch in the
// type of x; autodiff's sums in the type of the result, and 16 bits lose terms of long sums.
func Repeat(x *Node, batch int, dtype dtypes.DType) *Node {
	return withGradient(x, func(x *Node) *Node {
		dims := slices.Clone(x.Shape().Dimensions)
		dims[0] = batch
		return BroadcastToDims(ConvertDType(x, dtype), dims...)
	}, func(x *Node, _ func() *Node, dy *Node) *Node {
		return ReduceAndKeep(ConvertDType(dy, x.DType()), ReduceSum, 0)
	})
}

// AddRows is x + rows over x [batch, ...] and rows [1 or batch, ...], float32, in the type of x.
func AddRows(x, rows *Node) *Node {
	if x.DType().IsHalfPrecision() && rows.Shape().Dim(0) == 1 {
		return Add(x, Repeat(rows, x.Shape().Dim(0), x.DType()))
	}
	return Add(x, ConvertDType(rows, x.DType()))
}

// Rescale is y = x∘m over x [batch, ...] and factors m [1 or batch, ...], float32, multiplied in float32, in the type
// of x. Autodiff stores x for the gradient of m, Σ dy∘x, summed over the batch; with [1, ...] it is Σ dy∘y / m here, so
// that only y is stored, which the next operation needs anyway; once, or XLA for GPUs computes y again from the product
// of which x is a part, and stores that. A zero factor gets no gradient in that step.
func Rescale(x, m *Node) *Node {
	wide := func(x *Node) *Node { return ConvertDType(x, m.DType()) }
	product := func(in []*Node) *Node { return Once(ConvertDType(Mul(wide(in[0]), in[1]), x.DType()))[0] }
	if m.Shape().Dim(0) != 1 {
		return product([]*Node{x, m})
	}
	var y *Node
	y = replaceGradients([]*Node{x, m}, product,
		nil, func(dy *Node) *Node {
			sum := ReduceAndKeep(Mul(wide(dy), wide(y)), ReduceSum, 0)
			zero := Equal(m, ZerosLike(m))
			return Where(zero, ZerosLike(m), Div(sum, Where(zero, OnesLike(m), m)))
		})
	return y
}

// Rotate is y = x∘cos + J(x)∘sin over x [batch, ...] and cos and sin of angles, each axis of them 1 or that of x, in
// float32 and in the type of x. J (quarter) turns pairs of channels, which have one angle, by 90°: J(J(x)) = -x. So the
// gradient of x is dy∘cos - J(dy)∘sin and that of the angle -Σ J(dy)∘y, which cos and sin get in parts: only y is
// stored, as in Rescale. Others than of one angle must not be differentiated.
func Rotate(x, cos, sin *Node, quarter func(x *Node) *Node) *Node {
	wide := func(x *Node) *Node { return ConvertDType(x, cos.DType()) }
	var y *Node
	slope := func(dy *Node) *Node {
		sum := Mul(wide(quarter(dy)), wide(y))
		for axis, n := range cos.Shape().Dimensions {
			if n < sum.Shape().Dim(axis) {
				sum = ReduceAndKeep(sum, ReduceSum, axis)
			}
		}
		return sum
	}
	y = replaceGradients([]*Node{x, cos, sin}, func(in []*Node) *Node {
		return Once(ConvertDType(Add(Mul(wide(in[0]), in[1]), Mul(wide(quarter(in[0])), in[2])), x.DType()))[0]
	},
		func(dy *Node) *Node {
			return ConvertDType(Sub(Mul(wide(dy), cos), Mul(wide(quarter(dy)), sin)), x.DType())
		},
		func(dy *Node) *Node { return Mul(sin, slope(dy)) },
		func(dy *Node) *Node { return Neg(Mul(cos, slope(dy))) })
	return y
}
