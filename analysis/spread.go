// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import "math"

// headSpread measures the attention of one head of one layer on one image, over patch queries and patch keys only, each
// row divided by its sum. Distances are in patches. Queries without weight on patches are skipped; NaN if all are.
type headSpread struct {
	Distance   float64   // mean over queries of Σ A·d (Raghu et al., https://arxiv.org/abs/2108.08810)
	Range      float64   // mean over queries of the radius with the given share of the weight, in whole rings
	Entropy    float64   // mean over queries of −Σ A ln A, nats
	ByDistance []float64 // [rings] mean weight of a pair at that distance
}

// spread evaluates softmax weights [query, key] over all tokens of the grid.
func (r rings) spread(weights []float32, share float64) headSpread {
	tokens, n := r.tokens(), r.patches()
	s := headSpread{ByDistance: make([]float64, len(r.Distances))}
	mass := make([]float64, len(r.Distances)) // of one query, by distance
	counted := 0.0
	for i := range n {
		row := weights[(r.Prefix+i)*tokens:][r.Prefix:tokens]
		total := 0.0
		for _, w := range row {
			total += float64(w)
		}
		if !(total > 0) {
			continue
		}
		counted++
		clear(mass)
		for j, w := range row {
			p := float64(w) / total
			if mass[r.of[i*n+j]] += p; p > 0 {
				s.Entropy -= p * math.Log(p)
			}
		}
		radius, sum := -1.0, 0.0
		for k, m := range mass {
			s.Distance += m * r.Distances[k]
			s.ByDistance[k] += m
			if sum += m; radius < 0 && (sum >= share-1e-9 || k == len(mass)-1) { // sums are rounded
				radius = r.Distances[k]
			}
		}
		s.Range += radius
	}
	for _, v := range []*float64{&s.Distance, &s.Range, &s.Entropy} {
		*v /= counted // 0/0 is NaN
	}
	for k := range s.ByDistance {
		s.ByDistance[k] *= float64(n) / counted / float64(r.pairs[k])
	}
	return s
}
