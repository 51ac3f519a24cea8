// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
)

const (
	decayBins = 79 // bins of the released analysis: 80 edges
	noises    = 20 // draws of noise to average over; the paper has one
)

func decay(s *subject, vectors report.Field) error {
	measure := func(with string, d decayCurve) {
		s.measured("correlation with distance, all pairs", with, d.Pairs)
		s.measured("correlation with distance, bin means", with, d.Bins)
		s.measured("decay, %", with, d.Percent)
		s.measured("decreasing bins, %", with, d.Falling)
	}
	alone := decayOf(vectors.Vectors, s.grid, decayBins)
	measure("", alone)
	s.line("similarity of position embeddings, without noise", "distance (% of the largest)", "cosine similarity",
		figure.Line{X: alone.Centres, Y: alone.Cosines})
	var mean decayCurve
	for seed := range uint64(noises) {
		draw := rand.New(rand.NewPCG(s.Comparison.Seed, seed))
		noisy := slices.Clone(vectors.Vectors)
		for i := range noisy {
			noisy[i] += draw.NormFloat64()
		}
		d := decayOf(noisy, s.grid, decayBins)
		mean.Pairs += d.Pairs / noises
		mean.Bins += d.Bins / noises
		mean.Percent += d.Percent / noises
		mean.Falling += d.Falling / noises
	}
	measure("+ N(0, 1), mean of 20", mean)
	return nil
}

// decayCurve is the cosine similarity of two positions as a function of their distance.
type decayCurve struct {
	Pairs float64 // Pearson's correlation of distance and similarity over all pairs; NaN where undefined
	Bins  float64 // the same of the centres and means below, as in the paper

	// Centres are the centres of the bins that have a pair, in percent of the largest distance. Means are of 6 + 14·(s −
	// min s)/(max s − min s).
	Centres, Means []float64
	Cosines        []float64 // the means of s

	First, Last float64 // of Means
	Percent     float64 // decrease of Means from first to last
	Falling     float64 // share of the steps between bins that decrease, in percent
}

// decayOf analyses vectors [patches, width], over all N(N−1)/2 unordered pairs. The bins divide [0, 100) percent of the
// largest distance; as in the release (distance_curve_analysis.py at 3c27aecd) the largest distance itself is in no
// bin. Averaging within bins first leaves only the trend: Bins is always much nearer to ±1 than Pairs.
func decayOf(vectors []float64, g grid, bins int) decayCurve {
	n := g.patches()
	similarity := numeric.Similarities(vectors, n)
	var d, s []float64
	for i := range n {
		for j := i + 1; j < n; j++ {
			d, s = append(d, g.distance(i, j)), append(s, similarity[i*n+j])
		}
	}
	out := decayCurve{Pairs: undefined, Bins: undefined, First: undefined, Last: undefined, Percent: undefined,
		Falling: undefined}
	if len(d) < 2 || constant(s) {
		return out
	}
	out.Pairs = pearson(d, s)
	scaled, low, high := numeric.MinMax(s), floats.Min(s), floats.Max(s)
	sums, counts := make([]float64, bins), make([]float64, bins)
	longest := floats.Max(d)
	for k, v := range scaled {
		if at := int(d[k] / longest * float64(bins)); at < bins {
			sums[at] += 6 + 14*v
			counts[at]++
		}
	}
	falling := 0.0
	for k, count := range counts {
		if count == 0 {
			continue
		}
		if m := len(out.Means); m > 0 && sums[k]/count < out.Means[m-1] {
			falling++
		}
		out.Centres = append(out.Centres, (float64(k)+0.5)*100/float64(bins))
		out.Means = append(out.Means, sums[k]/count)
		out.Cosines = append(out.Cosines, low+(high-low)*(sums[k]/count-6)/14)
	}
	m := len(out.Means)
	if m < 2 {
		return out
	}
	out.Bins = pearson(out.Centres, out.Means)
	out.First, out.Last, out.Falling = out.Means[0], out.Means[m-1], 100*falling/float64(m-1)
	out.Percent = 100 * (out.First - out.Last) / out.First
	return out
}
