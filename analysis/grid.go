// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import "math"

// grid is the token layout of a model: Prefix other tokens (class token, registers), then Rows·Cols patches, row by
// row.
type grid struct{ Rows, Cols, Prefix int }

func (g grid) patches() int { return g.Rows * g.Cols }
func (g grid) tokens() int  { return g.Prefix + g.patches() }

// distance is the Euclidean distance of two patches, in patches.
func (g grid) distance(i, j int) float64 { return math.Sqrt(float64(g.squared(i, j))) }

func (g grid) squared(i, j int) int {
	rows, cols := i/g.Cols-j/g.Cols, i%g.Cols-j%g.Cols
	return rows*rows + cols*cols
}

// positions are row and column of each patch.
func (g grid) positions() (rows, cols []float64) {
	for i := range g.patches() {
		rows, cols = append(rows, float64(i/g.Cols)), append(cols, float64(i%g.Cols))
	}
	return rows, cols
}

// rings group the pairs of patches by distance.
type rings struct {
	grid
	Distances []float64 // [rings] the distinct distances, in patches, ascending from 0
	of        []int32   // [patches, patches] index into Distances
	pairs     []int     // [rings] ordered pairs at that distance, a patch with itself included
}

func (g grid) rings() rings {
	n := g.patches()
	r := rings{grid: g, of: make([]int32, n*n)}
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
