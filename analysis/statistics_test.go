// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
)

func TestUndefinedValuesAreNaNAndNever0(t *testing.T) {
	undefined := map[string]float64{
		"a correlation of constants":                     pearson([]float64{1, 2, 3}, []float64{0.2, 0.2, 0.2}),
		"a correlation of one value":                     pearson([]float64{1}, []float64{2}),
		"a correlation of values equal but for rounding": pearson([]float64{1, 2, 3}, []float64{0.3, 0.1 + 0.2, 0.3}),
		"an overlap of nothing with nothing":             iou(make([]bool, 3), make([]float64, 3), 1),
		"the separation of one patch":                    grid{Rows: 2, Cols: 3}.separation([]int{4}),
		"groups of which there is one": stat.Mean(numeric.Silhouettes([]float64{1, 2, 3}, []int{7, 7, 7}),
			nil),
		"the only point":                           stat.Mean(numeric.Silhouettes([]float64{1}, []int{7}), nil),
		"a paired test of one pair":                first(pairedT([]float64{1}, []float64{2})),
		"a paired test of equal differences":       first(pairedT([]float64{1, 2, 3}, []float64{2, 3, 4})),
		"a mask of every pixel":                    pointBiserial([]bool{true, true}, []float64{1, 2}),
		"the variation of nothing":                 variation(nil),
		"the likeness of what is the same for all": unbiasedCKA([]float64{1, 1, 1, 1}, []float64{1, 2, 3, 5}, 4),
		"the place of a neighbour on a single line": second(numeric.NearestR2([]float64{1, 2, 3}, [][]float64{{4, 4, 4}},
			1)),
	}
	constant := decayOf([]float64{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, grid{Rows: 2, Cols: 3}, decayBins)
	undefined["the decay of equal positions"] = constant.Pairs
	undefined["the decay of equal positions, in bins"] = constant.Bins
	undefined["the decay of positions that are zero, %"] = decayOf(make([]float64, 12), grid{Rows: 2, Cols: 3},
		decayBins).Percent
	undefined["the decay in one bin"] = decayOf([]float64{1, 2, 4, 8, 9, 3}, grid{Rows: 1, Cols: 3}, decayBins).First
	for what, got := range undefined {
		if !math.IsNaN(got) {
			t.Errorf("%s: %g, want NaN", what, got)
		}
	}
}

func first[B any](a float64, _ B) float64  { return a }
func second[A any](_ A, b float64) float64 { return b }

// Uniform attention of a grid of 2×3 behind two tokens: the mean distance between its patches, the entropy of six.
func TestUniformAttentionSpreadsEvenlyOnAnyGridAndPrefix(t *testing.T) {
	for _, g := range []grid{{2, 3, 0}, {2, 3, 1}, {2, 3, 5}, {1, 7, 1}, {1, 1, 1}} {
		weights := make([]float32, g.tokens()*g.tokens())
		for i := range weights {
			weights[i] = 1 / float32(g.tokens())
		}
		s, n := g.rings().spread(weights, 0.9), float64(g.patches())
		for what, pair := range map[string][2]float64{
			"distance": {s.Distance, evenDistance(g.Rows, g.Cols)}, "entropy": {s.Entropy, math.Log(n)},
			"weight at 0": {s.ByDistance[0], 1 / n},
		} {
			if !(math.Abs(pair[0]-pair[1]) < 1e-6) {
				t.Errorf("%v: %s %g, want %g", g, what, pair[0], pair[1])
			}
		}
	}
}

func TestAQueryWithoutWeightOnPatchesDoesNotCount(t *testing.T) {
	g := grid{Rows: 1, Cols: 2, Prefix: 1}
	s := g.rings().spread([]float32{1, 0, 0, 1, 0, 0, 0.5, 0.25, 0.25}, 0.9)
	if s.Distance != 0.5 || s.Range != 1 {
		t.Errorf("distance %g, range %g: want 0.5, 1", s.Distance, s.Range)
	}
	if s = g.rings().spread([]float32{1, 0, 0, 1, 0, 0, 1, 0, 0}, 0.9); !math.IsNaN(s.Distance) {
		t.Errorf("no query counts: distance %g, want NaN", s.Distance)
	}
}

// Differences of mean 2 and deviation 1: t = 2√3, and with two degrees of freedom Survival is ½(1 − t/√(t² + 2)).
func TestTheProbabilityOfADifferenceIsTwoSided(t *testing.T) {
	a, b := []float64{2, 7, 4}, []float64{1, 5, 1}
	want := 2 * math.Sqrt(3)
	for sign, pair := range map[float64][2][]float64{1: {a, b}, -1: {b, a}} {
		statistic, p := pairedT(pair[0], pair[1])
		if !(math.Abs(statistic-sign*want) <= 1e-12) || !(math.Abs(p-(1-want/math.Sqrt(want*want+2))) <= 1e-12) {
			t.Errorf("t = %g, p = %g", statistic, p)
		}
	}
}

func TestErrorBinsContainEveryImageAndTheirStandardError(t *testing.T) {
	separation := []float64{-9, 0, 0.5, 1, 1.5, 2, 99, math.NaN()}
	wrong := []bool{true, false, true, true, false, false, true, true}
	bins := errorBySeparation(separation, wrong, 2, 1.0/6, 5.0/6) // quantiles at 0 and 2
	if len(bins) != 2 || bins[0].Low != 0 || bins[1].Centre != 1.5 || bins[1].High != 2 || bins[0].Images != 3 ||
		bins[1].Images != 4 {
		t.Fatalf("bins %+v", bins)
	}
	// Two of three and two of four are wrong.
	if !(math.Abs(bins[0].Rate-2.0/3) <= 1e-15) || !(math.Abs(bins[0].Deviation-math.Sqrt(2.0/27)) <= 1e-15) ||
		bins[1].Rate != 0.5 || bins[1].Deviation != 0.25 {
		t.Errorf("rates %+v", bins)
	}
	if same := errorBySeparation([]float64{3, 3}, []bool{true, false}, 5, 0,
		1); same[0].Images != 2 || same[0].Rate != 0.5 {
		t.Errorf("one separation for all: %+v", same)
	}
	if none := errorBySeparation([]float64{math.NaN()}, []bool{true}, 5, 0, 1); none != nil {
		t.Errorf("no separation: %+v", none)
	}
}

func TestEqualPointsHaveNoSilhouette(t *testing.T) {
	for i, got := range numeric.Silhouettes(make([]float64, 5*2), []int{0, 1, 0, 1, 2}) {
		if got != 0 {
			t.Errorf("point %d: %g", i, got)
		}
	}
}

func TestTheSameSeedGivesTheSameEmbeddingAndGroupsAreSeparate(t *testing.T) {
	points := make([]float64, 0, 13*3)
	labels := make([]int, 0, 13)
	for i := range 13 {
		group := i % 2
		labels = append(labels, group)
		points = append(points, float64(100*group)+float64(i%5), float64(i%3), float64(i%7))
	}
	y, kl := embed(points, 13, 3)
	if again, _ := embed(points, 13, 3); !slices.Equal(y, again) {
		t.Error("the same seed leads to other places")
	}
	if separated := stat.Mean(numeric.Silhouettes(y, labels), nil); !(separated > 0.5) || math.IsNaN(kl) {
		t.Errorf("silhouette %g, divergence %g", separated, kl)
	}
}

func TestAGridHasTheValuesOfTwoSettings(t *testing.T) {
	labels := []string{"β = 1, γ = 2", "β = 1, γ = 3", "β = 4, γ = 2", "β = 4, γ = 3"}
	for _, lowest := range []float64{0, -7} {
		got := gridOf("t", labels, []float64{0.25, 0.5, lowest, 1})
		want := figure.HeatMap{Title: "t", Numbers: true, Positive: lowest == 0, Limit: max(1, -lowest),
			Rows: []string{"β = 1", "β = 4"}, Cols: []string{"γ = 2", "γ = 3"}, Values: [][]float64{{0.25, 0.5}, {lowest, 1}}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestNumbersHaveThreeDigitsOrMore(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1234.5: "1234", 100: "100", 99.94: "99.9", 10: "10.0", 9.994: "9.99",
		1: "1.00", 0.9994: "0.999", 0.01: "0.010", 0.00999: "0.01", 0.00123: "0.0012", -12.34: "-12.3"} {
		if got := number(v); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}
