// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/additive"
	"github.com/wepe-go/wepe/internal/kernel"
)

// tokenwise is a rotary encoding given by rows for each token of a grid.
type tokenwise interface {
	pos.Encoder

	// rows returns the rows of the tokens in a block, in order: each float32 [tokens, …].
	rows(g *Graph, block int) []*Node

	// rotate rotates q and k [batch, tokens, heads, headDim] by the rows of their tokens, each [batch or 1, tokens, …]. It
	// computes in float32 and returns the type of q.
	rotate(q, k *Node, rows []*Node) (*Node, *Node)
}

// rotary is a tokenwise encoding as a Rotator, on one grid or, for NaFlexImages, on several: their tokens follow each
// other.
type rotary struct {
	tokenwise
	others []tokenwise
}

// Block implements Rotator.
func (r *rotary) Block(i int) pos.QKEncoder { return &rotaryBlock{rotary: r, block: i} }

// valueRotary is a ValueRotator.
type valueRotary struct {
	Rotator
	back Rotator
}

// Back implements ValueRotator.
func (v valueRotary) Back() Rotator { return v.back }

type rotaryBlock struct {
	*rotary
	block int
	at    *Node // of tokens on several grids, in place of positionIndices
}

// EncodeQK implements pos.QKEncoder for q, k [batch, tokens, heads, headDim]. The indices, [tokens] or [batch, tokens],
// are the positions of the tokens, nil for all in order.
func (b *rotaryBlock) EncodeQK(q, k, positionIndices *Node, seqAxis int) (*Node, *Node) {
	if q.Rank() != 4 || seqAxis != 1 && seqAxis != -3 {
		exceptions.Panicf("position: %s takes queries [batch, tokens, heads, headDim], got %s with tokens along axis %d",
			b.Name(), q.Shape(), seqAxis)
	}
	if b.at != nil {
		positionIndices = b.at
	}
	rows := b.rows(q.Graph(), b.block)
	for _, other := range b.others {
		for i, x := range other.rows(q.Graph(), b.block) {
			rows[i] = Concatenate([]*Node{rows[i], x}, 0)
		}
	}
	for i, x := range rows {
		if positionIndices != nil {
			x = additive.Rows(x, positionIndices)
		}
		if positionIndices == nil || positionIndices.Rank() == 1 {
			x = InsertAxes(x, 0)
		}
		rows[i] = x // [batch or 1, tokens, …]
	}
	return b.rotate(q, k, rows)
}

// rotation rotates each pair (a, b) of the channels of a query or key, mathematics.md (12.1),
//
//	(a, b) -> (a·cos - b·sin, a·sin + b·cos),
//
// by an angle that depends on the token, and may depend on pair, head and block. For all pairs at once this is x·cos +
// (x·P)·sin with a constant matrix P that maps (a, b) to (-b, a): unlike slices, a product has a gradient on every
// backend.
type rotation struct {
	name  string
	pairs pairsFunc
	split bool            // the pairs of a head of d channels are (i, i+d/2), not (2i, 2i+1)
	swap  *tensors.Tensor // P, or a block of it on the diagonal: float32 [span, span]
}

// pairsFunc returns cos and sin of the angles of one block, float32 [tokens, heads or 1, headDim/2].
type pairsFunc func(g *Graph, block int) (cos, sin *Node)

func newRotation(name string, c Config, split bool, pairs pairsFunc) *rotary {
	// For neighbouring channels P is block diagonal: a block of 16 channels multiplies several times faster than 64.
	span := c.headDim()
	for !split && (span > 16 || c.headDim()%span != 0) {
		span -= 2
	}
	swap := make([]float32, span*span) // row: channel of x, column: channel of x·P
	for i := range span / 2 {
		a, b := 2*i, 2*i+1
		if split {
			a, b = i, i+span/2
		}
		swap[b*span+a], swap[a*span+b] = -1, 1
	}
	return &rotary{tokenwise: &rotation{name, pairs, split, tensors.FromFlatDataAndDimensions(swap, span, span)}}
}

func (r *rotation) Name() string { return r.name }

// rows spreads cos and sin of the pairs over the channels: [tokens, heads or 1, headDim].
func (r *rotation) rows(g *Graph, block int) []*Node {
	cos, sin := r.pairs(g, block)
	spread := func(pairs *Node) *Node {
		if r.split {
			return Concatenate([]*Node{pairs, pairs}, -1) // [a0 a1 … b0 b1 …]
		}
		d := pairs.Shape().Dimensions
		return Reshape(Stack([]*Node{pairs, pairs}, -1), d[0], d[1], 2*d[2]) // [a0 b0 a1 b1 …]
	}
	return []*Node{spread(cos), spread(sin)}
}

func (r *rotation) rotate(q, k *Node, rows []*Node) (*Node, *Node) {
	quarter := func(x *Node) *Node {
		swap := ConvertDType(ConstCachedTensor(x.Graph(), r.swap), x.DType())
		swapped := MatMul(Reshape(x, -1, swap.Shape().Dim(0)), swap) // exact in any type: one term a sum
		return Reshape(swapped, x.Shape().Dimensions...)
	}
	rotated := func(x *Node) *Node { return kernel.Rotate(x, rows[0], rows[1], quarter) }
	return rotated(q), rotated(k)
}

// fixedPairs tabulates an encoding without variables, equal in all heads and blocks: angle(k, i) rotates pair i of
// patch k. Tokens before patch first are not rotated; the prefix is the patches below 0.
func fixedPairs(c Config, first int, angle func(k, i int) float64) pairsFunc {
	n := c.headDim() / 2
	cos, sin := make([]float32, c.Tokens()*n), make([]float32, c.Tokens()*n)
	for token := range c.Tokens() {
		for i := range n {
			a := 0.0
			if k := token - c.Prefix; k >= first {
				a = angle(k, i)
			}
			cos[token*n+i], sin[token*n+i] = float32(math.Cos(a)), float32(math.Sin(a))
		}
	}
	cosines := tensors.FromFlatDataAndDimensions(cos, c.Tokens(), 1, n)
	sines := tensors.FromFlatDataAndDimensions(sin, c.Tokens(), 1, n)
	return func(g *Graph, _ int) (*Node, *Node) {
		return ConstCachedTensor(g, cosines), ConstCachedTensor(g, sines)
	}
}

// ropeTheta reads θ for an encoding without other settings.
func ropeTheta(scope *model.Scope, otherwise float64) float64 {
	readSettings(scope, thetaSetting(&otherwise))
	return otherwise
}

// frequencies returns θ^(-j/n), j = 0 … n-1, in radians per patch.
func frequencies(theta float64, n int) []float64 {
	f := make([]float64, n)
	for j := range f {
		f[j] = math.Pow(theta, -float64(j)/float64(n))
	}
	return f
}

// newRope1D is RoFormer's encoding (https://arxiv.org/abs/2104.09864) over the number k of the patch, row by row: pair
// i of d/2 turns by k·θ^(-2i/d). Another grid continues the numbers: rows are Cols positions apart.
func newRope1D(scope *model.Scope, c Config) Encoder {
	f := frequencies(ropeTheta(scope, 10000), c.headDim()/2)
	return newRotation("rope1d", c, false, fixedPairs(c, 0, func(k, i int) float64 { return float64(k) * f[i] }))
}
