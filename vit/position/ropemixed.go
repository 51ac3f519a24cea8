// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"
	"math/rand/v2"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// newRopeMixed is the mixed form of rope-vit (https://arxiv.org/abs/2403.13298): pair i of head h turns by col·f_x[h,i]
// + row·f_y[h,i] with frequencies learned in every block. They start as mixedFrequencies in directions drawn uniformly.
// Rows and columns are counted, not scaled, on every grid.
func newRopeMixed(scope *model.Scope, c Config) Encoder {
	return newRotation("rope-mixed", c, false, mixedPairs(scope.In("rope_mixed"), c, c.patch))
}

const mixedQKVGrid = trainedGrid("rope_mixed_qkv")

// newRopeMixedQKV is rope-mixed on the values too, whose sums are turned back. The patches of another grid are at their
// places in that of training: column col of n is at (col+½)·trained/n - ½, rows likewise.
func newRopeMixedQKV(scope *model.Scope, c Config) Encoder {
	const name = "rope-mixed-qkv"
	rows, cols := mixedQKVGrid.read(scope, c)
	pairs := mixedPairs(scope.In("rope_mixed_qkv"), c, func(k int) (x, y float64) {
		col, row := c.patch(k)
		return (col+0.5)*float64(cols)/float64(c.Cols) - 0.5, (row+0.5)*float64(rows)/float64(c.Rows) - 0.5
	})
	back := newRotation(name, c, false, func(g *Graph, block int) (cos, sin *Node) {
		cos, sin = pairs(g, block)
		return cos, Neg(sin)
	})
	return valueRotary{newRotation(name, c, false, pairs), back}
}

// mixedPairs turns the pairs of the patches at the given columns and rows.
func mixedPairs(scope *model.Scope, c Config, place func(k int) (x, y float64)) pairsFunc {
	theta := ropeTheta(scope, 10)
	at := tensors.FromFlatDataAndDimensions(c.coordinates(place), c.Tokens(), 2, 1, 1)
	start := weight.AtOnce(func(r *rand.Rand) []float64 {
		directions := make([]float64, c.Heads)
		for h := range directions {
			directions[h] = 2 * math.Pi * r.Float64()
		}
		return mixedFrequencies(directions, c.headDim(), theta)
	})
	learnedFrequencies := perBlock(scope, c, "frequencies", start, 2, c.Heads, c.headDim()/2)
	return func(g *Graph, block int) (cos, sin *Node) {
		f := learnedFrequencies.value(g, block) // [2, heads, headDim/2]
		// A sum of products, not a matrix product, which may be computed in fewer bits: the angles are large.
		angles := ReduceSum(Mul(ConstCachedTensor(g, at), InsertAxes(f, 0)), 1) // [tokens, heads, headDim/2]
		return Cos(angles), Sin(angles)
	}
}

// mixedFrequencies returns frequencies [2 (x, y), heads, headDim/2] of the lengths θ^(-4j/d), j = 0 … d/4-1: the first
// half of a head's along its direction, the second half across it.
func mixedFrequencies(directions []float64, headDim int, theta float64) []float64 {
	lengths, heads, n := frequencies(theta, headDim/4), len(directions), headDim/2
	f := make([]float64, 2*heads*n)
	for h, direction := range directions {
		for i := range n {
			length, angle := lengths[i%len(lengths)], direction+math.Pi/2*float64(i/len(lengths))
			f[h*n+i], f[(heads+h)*n+i] = length*math.Cos(angle), length*math.Sin(angle)
		}
	}
	return f
}
