// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/wepe-go/wepe/internal/random"
)

// Streams separate the draws for different purposes with the same seed, epoch and index.
const (
	streamOrder uint64 = iota + 1
	streamSample
	streamMix
	streamFraction
	streamSplit
	streamShapes
	streamChange
	streamCutout
)

// Order returns the indices that an epoch visits, of a dataset of n images: a permutation of 0…n-1, or with repeats
// above 1 its first n/repeats rows, each that many times in a row with another draw (Hoffer et al. 2020,
// https://arxiv.org/abs/1901.09335, as DeiT's RASampler), so that an epoch keeps its length. The k-th repetition of a
// row has the index row + k·n, which seeds its draws; index mod n is the row.
func Order(seed int64, epoch, n, repeats int) []int {
	order := random.New(streamOrder, seed, epoch, 0).Perm(n)
	if repeats < 2 {
		return order
	}
	repeated := make([]int, n)
	for i := range repeated {
		repeated[i] = order[i/repeats] + i%repeats*n
	}
	return repeated
}

// drawRows chooses k of n rows uniformly without replacement and returns them and the others, each in order.
func drawRows(stream uint64, seed int64, n, k int) (rows, others []int) {
	order := random.New(stream, seed, 0, 0).Perm(n)
	slices.Sort(order[:k])
	slices.Sort(order[k:])
	return order[:k], order[k:]
}

// beta draws from Beta(alpha, alpha) as Gₐ/(Gₐ+G_b) of two gamma variates, in logarithms because for mixup's small
// alpha both may underflow.
func beta(r *rand.Rand, alpha float64) float64 {
	a, b := logGamma(r, alpha), logGamma(r, alpha)
	return 1 / (1 + math.Exp(b-a))
}

// logGamma draws the logarithm of a Gamma(alpha, 1) variate: Marsaglia and Tsang, "A simple method for generating gamma
// variables" (2000), for alpha+1, reduced to alpha by a factor U^(1/alpha).
func logGamma(r *rand.Rand, alpha float64) float64 {
	d := alpha + 1 - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) { // 1-U is never 0
			return math.Log(d*v) + math.Log(1-r.Float64())/alpha
		}
	}
}
