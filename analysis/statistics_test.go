// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/numeric"
)

func TestStatistics_UndefinedValuesAreNaN(t *testing.T) {
	alike, g := []float64{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, grid{Rows: 2, Cols: 3}
	one, _ := pairedT([]float64{1}, []float64{2})
	same, _ := pairedT([]float64{1, 2, 3}, []float64{2, 3, 4})
	_, line := numeric.NearestR2([]float64{1, 2, 3}, [][]float64{{4, 4, 4}}, 1)
	for what, got := range map[string]float64{
		"a correlation of constants":                     pearson([]float64{1, 2, 3}, []float64{0.2, 0.2, 0.2}),
		"a correlation of one value":                     pearson([]float64{1}, []float64{2}),
		"a correlation of values equal but for rounding": pearson([]float64{1, 2, 3}, []float64{0.3, 0.1 + 0.2, 0.3}),
		"an overlap of nothing with nothing":             iou(make([]bool, 3), make([]float64, 3), 1),
		"the separation of one patch":                    g.separation([]int{4}),
		"groups of which there is one":                   stat.Mean(numeric.Silhouettes(alike[:3], []int{7, 7, 7}), nil),
		"a paired test of one pair":                      one,
		"a paired test of equal differences":             same,
		"a mask of every pixel":                          pointBiserial([]bool{true, true}, []float64{1, 2}),
		"the variation of nothing":                       variation(nil),
		"the likeness of what is the same for all":       unbiasedCKA([]float64{1, 1, 1, 1}, []float64{1, 2, 3, 5}, 4),
		"the place of a neighbour on a single line":      line,
		"the decay of equal positions":                   decayOf(alike, g, decayBins).Pairs,
		"the decay of equal positions, in bins":          decayOf(alike, g, decayBins).Bins,
		"the decay of positions that are zero, %":        decayOf(make([]float64, 12), g, decayBins).Percent,
		"the decay in one bin": decayOf([]float64{1, 2, 4, 8, 9, 3}, grid{Rows: 1, Cols: 3},
			decayBins).First,
	} {
		equal(t, what, math.IsNaN(got), true)
	}
}

func TestSpread_QueryWithoutWeightOnPatchesDoesNotCount(t *testing.T) {
	r := grid{Rows: 1, Cols: 2, Prefix: 1}.rings()
	s := r.spread([]float32{1, 0, 0, 1, 0, 0, 0.5, 0.25, 0.25}, 0.9)
	equal(t, "distance and range", [2]float64{s.Distance, s.Range}, [2]float64{0.5, 1})
	none := r.spread([]float32{1, 0, 0, 1, 0, 0, 1, 0, 0}, 0.9)
	equal(t, "no distance where no query counts", math.IsNaN(none.Distance), true)
}

func TestErrorBySeparation_BinsContainEveryImage(t *testing.T) {
	separation := []float64{-9, 0, 0.5, 1, 1.5, 2, 99, math.NaN()}
	wrong := []bool{true, false, true, true, false, false, true, true}
	bins := errorBySeparation(separation, wrong, 2, 1.0/6, 5.0/6) // quantiles at 0 and 2
	want := [][]float64{{0, 0.5, 1, 3, 2.0 / 3, math.Sqrt(2.0 / 27)}, {1, 1.5, 2, 4, 0.5, 0.25}}
	for i, b := range bins {
		got := []float64{b.Low, b.Centre, b.High, float64(b.Images), b.Rate, b.Deviation}
		gomlxtest.NearAbs(t, "bin", got, want[i], 1e-15)
	}
	equal(t, "bins", len(bins), len(want))
	same := errorBySeparation([]float64{3, 3}, []bool{true, false}, 5, 0, 1)[0]
	equal(t, "images and rate of one separation", fmt.Sprint(same.Images, same.Rate), "2 0.5")
	equal(t, "no separation", errorBySeparation([]float64{math.NaN()}, []bool{true}, 5, 0, 1), nil)
}

// As in scikit-learn: without a gradient at the first check, after 50 steps; without progress since step 49 at the
// first check more than 300 steps later.
func TestTSNE_StartsAndEndsAsScikitLearn(t *testing.T) {
	gomlxtest.Spreads(t, "start", start(5003, 1), 1e-4)
	equal(t, "two seeds start alike", slices.Equal(start(3, 1), start(3, 2)), false)
	for n, want := range map[int][2]float64{13: {4, 50}, 91: {30, 50}, 2400: {30, 50}, 4800: {30, 100}} {
		perplexity, rate := tsneSettings(n)
		equal(t, "perplexity and rate", [2]float64{perplexity, rate}, want)
	}
	p := affinities([]float64{0, 1, 3, 7, 2, 5}, 6, 1.5)
	for _, c := range []struct {
		positions   []float64
		rate        float64
		steps, done int
	}{{make([]float64, 12), 50, 1000, 50}, {start(6, 1), 0, 1000, 400}, {start(6, 1), 0, 70, 70}} {
		_, done := descend(p, c.positions, c.rate, 0, c.steps, 0.8)
		equal(t, "steps", done, c.done)
	}
}

// A point far from twelve others in a row: its conditional probabilities, doubled in the mean with zeros, are
// exp(-βd²)/Σ, and β is so large that no term of the sum is a float64 without subtracting the smallest d².
func TestAffinities_DistantPointHasThePerplexity(t *testing.T) {
	const n, perplexity = 13, 3.5
	points := make([]float64, n)
	for i := range n - 1 {
		points[i] = float64(i)
	}
	points[n-1] = 1e6
	p := affinities(points, n, perplexity)
	row := p[(n-1)*n : n*n-1]
	entropy, sum := 0.0, 0.0
	for _, v := range row {
		q := v * 2 * n
		entropy, sum = entropy-q*math.Log(q), sum+q
	}
	gomlxtest.NearAbs(t, "sum and perplexity", []float64{sum, math.Exp(entropy)}, []float64{1, perplexity}, 1e-6)
	for i := range n - 3 { // d² differs by 2e6 from one to the next: the ratios of probabilities are equal
		if a, b := row[i+1]/row[i], row[i+2]/row[i+1]; !(math.Abs(a/b-1) <= 1e-3) || !(a > 1.1) {
			t.Errorf("the probabilities %v have the ratios %g and %g", row, a, b)
		}
	}
}
