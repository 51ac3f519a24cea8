// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package numeric

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// Neighbour is a neighbour of a point, and the cosine of the angle between them.
type Neighbour struct {
	Index  int
	Cosine float32
}

// nearestBlock is the number of cosines in memory at a time.
const nearestBlock = 1 << 22

// Nearest is [Among] for one set of queries.
func Nearest(queries, points []float32, width, k int) [][]Neighbour {
	return Among(points, width)(queries, k)
}

// Among prepares a search, which returns, for each query [m, width], the k > 0 points [n, width] with the largest
// cosine x·y/|x||y|, or all if there are fewer, the nearest first; ties are in the order of points. The cosine with
// zero is 0. Without queries it returns the nearest other points of each point. It may be called concurrently.
func Among(points []float32, width int) func(queries []float32, k int) [][]Neighbour {
	known := unit(points, width)
	return func(queries []float32, k int) [][]Neighbour { return nearest(queries, known, k) }
}

func nearest(queries []float32, known blas32.General, k int) [][]Neighbour {
	width, others := known.Cols, queries == nil
	from := known
	if !others {
		from = unit(queries, width)
	}
	if known.Rows == 0 {
		return make([][]Neighbour, from.Rows)
	}
	found := make([][]Neighbour, 0, from.Rows)
	for begin := 0; begin < from.Rows; begin += max(1, nearestBlock/known.Rows) {
		block := from
		block.Rows = min(from.Rows-begin, max(1, nearestBlock/known.Rows))
		block.Data = from.Data[begin*width:]
		cosines := blas32.General{Rows: block.Rows, Cols: known.Rows, Stride: known.Rows,
			Data: make([]float32, block.Rows*known.Rows)}
		blas32.Gemm(blas.NoTrans, blas.Trans, 1, block, known, 0, cosines)
		for i := range block.Rows {
			self := -1
			if others {
				self = begin + i
			}
			found = append(found, largest(cosines.Data[i*known.Rows:(i+1)*known.Rows], k, self))
		}
	}
	return found
}

// unit returns points [n, width] normalized to length 1; zeros stay.
func unit(points []float32, width int) blas32.General {
	m := blas32.General{Rows: len(points) / width, Cols: width, Stride: width, Data: slices.Clone(points)}
	for i := range m.Rows {
		row, sum := m.Data[i*width:(i+1)*width], 0.0
		for _, v := range row {
			sum += float64(v) * float64(v)
		}
		if sum > 0 {
			for j, v := range row {
				row[j] = float32(float64(v) / math.Sqrt(sum))
			}
		}
	}
	return m
}

// largest returns the k largest cosines, except one point's.
func largest(cosines []float32, k, except int) []Neighbour {
	k = min(k, len(cosines))
	top := make([]Neighbour, 0, k+1)
	for i, c := range cosines {
		if i == except || len(top) == k && c <= top[k-1].Cosine {
			continue
		}
		at := len(top) // after equal values
		for at > 0 && top[at-1].Cosine < c {
			at--
		}
		top = slices.Insert(top, at, Neighbour{i, c})
		top = top[:min(k, len(top))]
	}
	return top
}

// Votes classifies each point by its neighbours: scores [points][classes],
//
//	score(c) = Σ exp((cosine − largest)/temperature) over the neighbours of class c,
//
// which for each point is proportional to DINO's Σ exp(cosine/temperature) and does not overflow (Caron et al. 2021,
// https://arxiv.org/abs/2104.14294, and eval_knn.py of its release: 20 neighbours, temperature 0.07; the weights are
// from Wu et al. 2018).
func Votes(neighbours [][]Neighbour, labels []int, classes int, temperature float64) [][]float32 {
	scores := make([][]float32, len(neighbours))
	for i, near := range neighbours {
		scores[i] = make([]float32, classes)
		for _, n := range near {
			scores[i][labels[n.Index]] += float32(math.Exp(float64(n.Cosine-near[0].Cosine) / temperature))
		}
	}
	return scores
}
