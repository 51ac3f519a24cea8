// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/setting"
)

const liereGrid = trainedGrid("liere_trained")

// liere applies learned rotations of many channels at once to queries and keys (LieRE,
// https://arxiv.org/abs/2406.10322): the patch at (y, x) rotates each block of g channels by
//
//	R(y, x) = exp(y·A₀ + x·A₁),   A₀, A₁ skew-symmetric [g, g]
//
// with separate generators for every layer, head and block of channels. Coordinates run from 0 to 1
// over the training grid and to n/n₀ over n positions where training had n₀: the last position is the end of the range,
// as in the authors' code, so the distance of neighbours changes a little with n. Prefix tokens are not rotated.
//
// A generator is stored as its g(g-1)/2 elements above the diagonal, uniform in [0, 2π) at the start. They are clipped
// to ±liereLimit, the only difference from the original: by Pick's inequality (see bound) this limits the norm of every
// exponent, which determines the number of squarings in expSkew.
type liere struct {
	c           Config
	block       int               // g
	coordinates []float32         // [tokens, 2]: y, x
	farthest    float64           // the largest y + x
	triangles   []*model.Variable // [g(g-1)/2, 2, heads·blocks] of each layer

	rotations []shared[*Node] // by layer
}

// liereLimit bounds the elements of a generator at twice their largest initial value: there it rotates its two channels
// twice around from one side of the image to the other.
const liereLimit = 4 * math.Pi

const liereAxes = 2

// newLieRE reads the hyperparameters ParamLiere….
func newLieRE(scope *model.Scope, c Config) Encoder {
	headDim := c.headDim()
	l := &liere{c: c, block: liereBlock(headDim), rotations: make([]shared[*Node], c.Depth)}
	rows, cols := liereGrid.read(scope, c)
	readSettings(scope, setting.Number(ParamLiereBlock, &l.block, 2, 1<<16, "channels per rotation block, a divisor of "+
		"those of a head: 8, the default, or the largest divisor below, and 64, a whole head, are the paper's"))
	if headDim%l.block != 0 {
		exceptions.Panicf("position: %s = %d, want a number that divides the %d channels of a head", ParamLiereBlock, l.block,
			headDim)
	}
	y, x := liereCoordinates(rows, c.Rows), liereCoordinates(cols, c.Cols)
	l.coordinates = c.coordinates(func(k int) (float64, float64) { return y[k/c.Cols], x[k%c.Cols] })
	l.farthest = y[len(y)-1] + x[len(x)-1]
	l.triangles = perBlock(scope.At("liere"), c, "generators", liereInit, l.block*(l.block-1)/2, liereAxes,
		c.Heads*headDim/l.block)
	return &rotary{tokenwise: l}
}

// liereBlock is the default g: 8, or the largest divisor of the channels of a head below it, or all of them.
func liereBlock(headDim int) int {
	for block := 8; block > 1; block-- {
		if headDim%block == 0 {
			return block
		}
	}
	return headDim
}

// liereCoordinates returns the coordinates of n positions along an axis that had trained positions in training.
func liereCoordinates(trained, n int) []float64 {
	places := make([]float64, n)
	for i := 1; i < n; i++ {
		places[i] = float64(n) / float64(trained) * float64(i) / float64(n-1)
	}
	return places
}

func (l *liere) Name() string {
	return fmt.Sprintf("liere(block=%d)", l.block)
}

// rows returns R of a layer, [tokens, heads, blocks, g, g].
func (l *liere) rows(g *Graph, layer int) []*Node {
	inDepth(layer, l.c.Depth)
	return []*Node{l.rotations[layer].in(g, func() *Node {
		a := Reshape(l.generators(g, layer), liereAxes, -1)
		coordinates := Reshape(Const(g, l.coordinates), l.c.Tokens(), liereAxes)
		x := Reshape(MatMul(coordinates, a), -1, l.block, l.block)
		return Reshape(expSkew(x, l.bound()), l.c.Tokens(), l.c.Heads, -1, l.block, l.block)
	})}
}

func (l *liere) rotate(q, k *Node, rows []*Node) (*Node, *Node) {
	return l.rotateOne(q, rows[0]), l.rotateOne(k, rows[0])
}

// rotateOne multiplies every block of channels of x by its rotation, r [batch or 1, tokens, heads, blocks, g, g], as
// one product per rotation: gradients of products with more free axes do not run on ONNX Runtime.
func (l *liere) rotateOne(x, r *Node) *Node {
	d := x.Shape().Dimensions
	y := Reshape(ConvertDType(x, dtypes.Float32), d[0], d[1], d[2], -1, l.block)
	alike := r.Shape().Dim(0) == 1 // in all images
	if alike {
		y = TransposeAllAxes(y, 1, 2, 3, 0, 4)
	}
	between := y.Shape().Dimensions
	r = Reshape(r, -1, l.block, l.block)
	y = Reshape(Einsum("rvj,rij->rvi", Reshape(y, r.Shape().Dim(0), -1, l.block), r), between...)
	if alike {
		y = TransposeAllAxes(y, 3, 0, 1, 2, 4)
	}
	return ConvertDType(Reshape(y, d...), x.DType())
}

// generators returns A₀ and A₁ of a layer, [2, blocks, g·g], from the variable of their upper triangles, [g(g-1)/2, 2,
// blocks], pairs of channels (0, 1), (0, 2) … (g-2, g-1). Blocks are the blocks of all heads.
func (l *liere) generators(g *Graph, layer int) *Node {
	n := l.block
	pair, sign := make([]int64, n*n), make([]float32, n*n) // the diagonal has sign 0 and may refer to any pair
	next := int64(0)
	for i := range n {
		for j := i + 1; j < n; j++ {
			pair[i*n+j], sign[i*n+j] = next, 1
			pair[j*n+i], sign[j*n+i] = next, -1
			next++
		}
	}
	a := Gather(ClipScalar(l.triangles[layer].NodeValue(g), -liereLimit, liereLimit), Reshape(Const(g, pair), n*n, 1))
	return TransposeAllAxes(Mul(a, Reshape(Const(g, sign), n*n, 1, 1)), 1, 2, 0)
}

func liereInit(r *rand.Rand, _, _ int) float64 { return 2 * math.Pi * r.Float64() }

// bound is the largest spectral norm of an exponent. The norm of a real skew-symmetric [g, g] matrix with elements of
// at most m is at most m·cot(π/(2g)) (G. Pick, Z. angew. Math. Mech. 2, 1922, 353-357).
func (l *liere) bound() float64 {
	return l.farthest * liereLimit / math.Tan(math.Pi/float64(2*l.block))
}

// The matrix exponential, for skew-symmetric matrices, by scaling and squaring.
//
//	exp(X) = T(X/2^s)^(2^s),   T(Y) = Σ_{k≤12} Y^k/k!,   s the smallest with bound/2^s ≤ 1
//
// A skew-symmetric X is normal with eigenvalues iλ, |λ| ≤ ‖X‖, so the scalar error bound applies: Taylor's remainder at
// i·y is at most y^13/13!, and a power multiplies it by the exponent. Truncation thus costs at most 2^s/13! =
// 2^s·1.6·10⁻¹⁰. In float32 rounding dominates: each squaring doubles the existing error, and the worst element of the
// result is off by up to 2^s·10⁻⁷, as TestExpSkewIsWithinItsStatedError measures.
//
// T takes five products in the form of Paterson and Stockmeyer (SIAM J. Comput. 2, 1973, 60-66), so exp takes s + 5.

// expSquarings returns s for matrices of spectral norm up to bound.
func expSquarings(bound float64) int { return int(max(0, math.Ceil(math.Log2(bound)))) }

// expSkew returns exp of the skew-symmetric matrices x [..., n, n], whose spectral norms must not exceed bound. It is
// differentiable; exp(0) is exactly the identity.
func expSkew(x *Node, bound float64) *Node {
	squarings := expSquarings(bound)
	x = MulScalar(x, math.Ldexp(1, -squarings))
	power := []*Node{identity(x), x, nil, nil}
	for i := 2; i < len(power); i++ {
		power[i] = MatMul(power[i-1], x)
	}
	x4 := MatMul(power[2], power[2])

	y := MulScalar(x4, 1/math.Gamma(13)) // X⁴·(1/12!)
	for first := 8; ; first -= 4 {
		for i, p := range power {
			y = Add(y, MulScalar(p, 1/math.Gamma(float64(first+i+1))))
		}
		if first == 0 {
			break
		}
		y = MatMul(y, x4)
	}
	for range squarings {
		y = MatMul(y, y)
	}
	return y
}

// identity returns the unit matrix [n, n] of x [..., n, n], with as many axes of length 1 in front as x has.
func identity(x *Node) *Node {
	n := x.Shape().Dim(-1)
	unit := make([]float64, n*n)
	for i := range n {
		unit[i*(n+1)] = 1
	}
	dims := slices.Repeat([]int{1}, x.Rank())
	dims[len(dims)-2], dims[len(dims)-1] = n, n
	return Reshape(ConstAsDType(x.Graph(), x.DType(), unit), dims...)
}
