// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
)

// Spread is how the attention of one head of one layer falls on one image. Distances are between patches, in patches.
// What is said of places counts patch queries and patch keys only, each row divided by its sum first; a query that
// gives patches no weight at all does not count. NaN where nothing counts.
type Spread struct {
	Distance   float64   // mean over queries of Σ A·d (Raghu et al., https://arxiv.org/abs/2108.08810)
	RMS        float64   // mean over queries of √Σ A·d²
	Range      float64   // mean over queries of the radius that holds the given share of the weight, rings taken whole
	Ranges     []float64 // [patches] of each query
	ByDistance []float64 // [rings] mean weight of a pair at that distance

	Entropy    float64 // mean over queries of −Σ A ln A, nats
	Perplexity float64 // mean over queries of its exponential: how many patches are attended to

	EntropyAll   float64 // of all tokens over all keys, as A is
	EntropyClass float64 // of the first token, as A is; NaN without a prefix
}

// Spread measures softmax weights [query, key] over all tokens of the grid.
func (r Rings) Spread(weights []float32, share float64) (Spread, error) {
	tokens, n := r.Tokens(), r.Patches()
	if len(weights) != tokens*tokens {
		return Spread{}, fmt.Errorf("analysis: %d attention weights, want %d×%d", len(weights), tokens, tokens)
	}
	s := Spread{Ranges: make([]float64, n), ByDistance: make([]float64, len(r.Distances)), EntropyClass: math.NaN()}
	mass := make([]float64, len(r.Distances)) // of one query, by distance
	counted := 0.0
	for query := range tokens {
		row := weights[query*tokens : (query+1)*tokens]
		entropy := entropyOf(row, 1)
		s.EntropyAll += entropy / float64(tokens)
		if query < r.Prefix {
			if query == 0 {
				s.EntropyClass = entropy
			}
			continue
		}
		i := query - r.Prefix
		patches := row[r.Prefix:]
		total := 0.0
		for _, w := range patches {
			total += float64(w)
		}
		if s.Ranges[i] = math.NaN(); !(total > 0) {
			continue
		}
		counted++
		clear(mass)
		for j, w := range patches {
			mass[r.of[i*n+j]] += float64(w) / total
		}
		var mean, square, sum float64
		for k, m := range mass {
			d := r.Distances[k]
			mean, square = mean+m*d, square+m*d*d
			if s.ByDistance[k] += m; math.IsNaN(s.Ranges[i]) {
				if sum += m; sum >= share || k == len(mass)-1 { // all of the weight may round to less than a share of 1
					s.Ranges[i] = d
				}
			}
		}
		entropy = entropyOf(patches, total)
		s.Distance, s.RMS, s.Range = s.Distance+mean, s.RMS+math.Sqrt(square), s.Range+s.Ranges[i]
		s.Entropy, s.Perplexity = s.Entropy+entropy, s.Perplexity+math.Exp(entropy)
	}
	for _, v := range []*float64{&s.Distance, &s.RMS, &s.Range, &s.Entropy, &s.Perplexity} {
		*v /= counted // 0/0 is NaN
	}
	for k := range s.ByDistance {
		s.ByDistance[k] *= float64(n) / counted / float64(r.pairs[k])
	}
	return s, nil
}

// entropyOf is −Σ p ln p of p = weights/total, in nats.
func entropyOf(weights []float32, total float64) (h float64) {
	for _, w := range weights {
		if p := float64(w) / total; p > 0 {
			h -= p * math.Log(p)
		}
	}
	return h
}
