// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"
)

// Grid says which tokens of a model are patches: Prefix others come first (class token, registers), then Rows·Cols
// patches, row by row.
type Grid struct{ Rows, Cols, Prefix int }

// Patches is the number of patches.
func (g Grid) Patches() int { return g.Rows * g.Cols }

// Tokens is the length of the sequence.
func (g Grid) Tokens() int { return g.Prefix + g.Patches() }

// Distance is the Euclidean distance of two patches, in patches.
func (g Grid) Distance(i, j int) float64 { return math.Sqrt(float64(g.squared(i, j))) }

func (g Grid) squared(i, j int) int {
	rows, cols := i/g.Cols-j/g.Cols, i%g.Cols-j%g.Cols
	return rows*rows + cols*cols
}

// Rings sorts the pairs of patches by distance.
type Rings struct {
	Grid
	Distances []float64 // [rings] the distinct distances, in patches, ascending from 0
	of        []int32   // [patches, patches] index into Distances
	pairs     []int     // [rings] ordered pairs at that distance
}

// Rings returns the rings of a grid.
func (g Grid) Rings() Rings {
	n := g.Patches()
	r := Rings{Grid: g, of: make([]int32, n*n)}
	ring := make([]int32, (g.Rows-1)*(g.Rows-1)+(g.Cols-1)*(g.Cols-1)+1) // by squared distance: first whether it occurs
	for i := range n {
		ring[g.squared(0, i)] = 1
	}
	for squared, occurs := range ring {
		ring[squared] = int32(len(r.Distances))
		if occurs > 0 {
			r.Distances = append(r.Distances, math.Sqrt(float64(squared)))
		}
	}
	r.pairs = make([]int, len(r.Distances))
	for i := range n {
		for j := range n {
			k := ring[g.squared(i, j)]
			r.of[i*n+j] = k
			r.pairs[k]++
		}
	}
	return r
}

// Pairs returns how many ordered pairs of patches, a patch with itself among them, are at each distance.
func (r Rings) Pairs() []int { return slices.Clone(r.pairs) }
