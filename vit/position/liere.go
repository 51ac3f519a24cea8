// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

// Hyperparameters of liere.
const (
	// ParamLiereBlock is the number of channels of a rotation, a divisor of those of a head: 8, the default, or the
	// largest divisor below; 64, a whole head, is in the paper too.
	ParamLiereBlock = "liere_block"

	ParamLiereTrainedRows = "liere_trained_rows" // rows of patches in training, the unit of y; 0, the default, the model's
	// columns of patches in training, the unit of x; 0, the default, the model's.
	ParamLiereTrainedCols = "liere_trained_cols"
)

// liereSettings are the encoding's settings.
type liereSettings struct {
	block, rows, cols  int
	shared, firstLayer bool
}

func (l *liereSettings) settings() []setting.Row {
	return append(liereGrid.settings(&l.rows, &l.cols), append(setting.Internal(
		setting.Switch("liere_shared", &l.shared, "whether all heads of a layer share the generators"),
		setting.Switch("liere_first_layer", &l.firstLayer, "whether every layer uses the rotations of layer 0, as the "+
			"released model does")),
		setting.Number(ParamLiereBlock, &l.block, 2, 1<<16, "channels per rotation block, a divisor of "+
			"those of a head: 8, the default, or the largest divisor below, and 64, a whole head, are the paper's"))...)
}

var liereGrid = trainedGrid{ParamLiereTrainedRows, ParamLiereTrainedCols}

// liere turns queries and keys by learned rotations of many channels at once (LieRE,
// https://arxiv.org/abs/2406.10322): the patch at (y, x) turns each block of g channels by
//
//	R(y, x) = exp(y·A₀ + x·A₁),   A₀, A₁ skew-symmetric [g, g]
//
// with separate generators for every layer, block of channels and, unless shared, head. Coordinates run from 0 to 1
// over the training grid and to n/n₀ over n positions where training had n₀: the last position is the end of the range,
// as in the authors' code, so the distance of neighbours changes a little with n. Prefix tokens are not rotated.
//
// A generator is stored as its g(g-1)/2 elements above the diagonal, uniform in [0, 2π) at the start. They are clipped
// to ±liereLimit, the only difference from the original: by Pick's inequality (see bound) this limits the norm of every
// exponent, which determines the number of squarings in expSkew.
type liere struct {
	c           Config
	block       int // g
	shared      bool
	coordinates []float32         // [tokens, 2]: y, x
	farthest    float64           // the largest y + x
	triangles   []*model.Variable // [g(g-1)/2, 2, blocks or heads·blocks] of each layer, or one for all

	rotations []once // by layer
}

// liereLimit bounds the elements of a generator at twice their largest initial value: there it rotates its two channels
// twice around from one side of the image to the other.
const liereLimit = 4 * math.Pi

const liereAxes = 2

// newLieRE reads the hyperparameters ParamLiere….
func newLieRE(scope *model.Scope, c Config) Encoder {
	headDim := c.headDim()
	o := liereSettings{block: liereBlock(headDim)}
	readSettings(scope, o.settings())
	if headDim%o.block != 0 {
		exceptions.Panicf("position: %s = %d, want a number that divides the %d channels of a head", ParamLiereBlock, o.block,
			headDim)
	}
	l := &liere{c: c, block: o.block, shared: o.shared}
	y, x := liereCoordinates(o.rows, c.Rows), liereCoordinates(o.cols, c.Cols)
	l.coordinates = make([]float32, 2*c.Prefix) // zero: exp(0) turns nothing
	for k := range c.Rows * c.Cols {
		l.coordinates = append(l.coordinates, float32(y[k/c.Cols]), float32(x[k%c.Cols]))
	}
	l.farthest = y[len(y)-1] + x[len(x)-1]

	layers := c.Depth
	if o.firstLayer {
		layers = 1
	}
	blocks := headDim / l.block
	if !l.shared {
		blocks *= c.Heads
	}
	for layer := range layers {
		l.triangles = append(l.triangles, weight.Float32(scope.At("liere").At("block_%02d", layer), "generators", liereInit,
			l.block*(l.block-1)/2, liereAxes, blocks))
	}
	l.rotations = make([]once, layers)
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

// liereCoordinates returns the coordinates of n positions along an axis that had trained positions in training, 0 for
// n.
func liereCoordinates(trained, n int) []float64 {
	places := make([]float64, n)
	for i := 1; i < n; i++ {
		places[i] = float64(n) / float64(cmp.Or(trained, n)) * float64(i) / float64(n-1)
	}
	return places
}

// Name implements pos.Encoder.
func (l *liere) Name() string {
	return fmt.Sprintf("liere(block=%d)", l.block)
}

// rows returns R of a layer, [tokens, heads, blocks, g, g], without heads if they share it.
func (l *liere) rows(g *Graph, layer int) []*Node {
	layer %= len(l.triangles)
	return []*Node{l.rotations[layer].in(g, func() *Node {
		dims := []int{l.c.Tokens(), l.c.Heads, l.c.headDim() / l.block, l.block, l.block}
		if l.shared {
			dims = slices.Delete(dims, 1, 2)
		}
		a := Reshape(l.generators(g, layer), liereAxes, -1)
		coordinates := Reshape(Const(g, l.coordinates), l.c.Tokens(), liereAxes)
		x := Reshape(MatMul(coordinates, a), -1, l.block, l.block)
		return Reshape(expSkew(x, l.bound()), dims...)
	})}
}

func (l *liere) turn(q, k *Node, rows []*Node) (*Node, *Node) {
	return l.turnOne(q, rows[0]), l.turnOne(k, rows[0])
}

// turnOne multiplies every block of channels of x by its rotation, as one product per rotation: gradients of products
// with more free axes do not run on ONNX Runtime.
func (l *liere) turnOne(x, r *Node) *Node {
	const batch, token, head, block, channel = 0, 1, 2, 3, 4
	d := x.Shape().Dimensions
	dims := []int{d[0], d[1], d[2], d[3] / l.block, l.block}
	own, shared := []int{token, head, block}, []int{batch} // axes with their own rotations, and the others
	if l.shared {
		own, shared = []int{token, block}, []int{batch, head}
	}
	if r.Shape().Dim(0) > 1 { // indices for each image
		own, shared = append([]int{batch}, own...), shared[1:]
	}
	order := slices.Concat(own, shared, []int{channel})
	ordered, back, rotations := make([]int, len(dims)), make([]int, len(dims)), 1
	for i, axis := range order {
		ordered[i], back[axis] = dims[axis], i
		if i < len(own) {
			rotations *= dims[axis]
		}
	}
	y := TransposeAllAxes(Reshape(ConvertDType(x, dtypes.Float32), dims...), order...)
	y = Einsum("rvj,rij->rvi", Reshape(y, rotations, -1, l.block), Reshape(r, rotations, l.block, l.block))
	y = TransposeAllAxes(Reshape(y, ordered...), back...)
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
