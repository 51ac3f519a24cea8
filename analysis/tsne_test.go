// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func TestPositionsStartWithTheSpreadOfScikitLearn(t *testing.T) {
	gomlxtest.Spreads(t, "start", start(5003, 1), 1e-4)
	if slices.Equal(start(3, 1), start(3, 2)) {
		t.Error("two seeds start alike")
	}
}

// A point far from twelve others in a row: its conditional probabilities, doubled in the mean with zeros, are
// exp(-βd²)/Σ, and β is so large that no term of the sum is a float64 without subtracting the smallest d².
func TestFewPointsHaveASmallerPerplexityAndManyALargerRate(t *testing.T) {
	for n, want := range map[int][2]float64{13: {4, 50}, 91: {30, 50}, 94: {30, 50}, 2400: {30, 50}, 4800: {30, 100}} {
		if perplexity, rate := tsneSettings(n); perplexity != want[0] || rate != want[1] {
			t.Errorf("%d points: perplexity %g, rate %g, want %v", n, perplexity, rate, want)
		}
	}
}

// As in scikit-learn: without a gradient at the first check, after 50 steps; without progress since step 49 at the
// first check more than 300 steps later.
func TestADescentEndsWithoutGradientOrProgress(t *testing.T) {
	p := affinities([]float64{0, 1, 3, 7, 2, 5}, 6, 1.5)
	if _, done := descend(p, make([]float64, 12), 50, 0, 1000, 0.8); done != 50 {
		t.Errorf("points in one place: %d steps, want 50", done)
	}
	if _, done := descend(p, start(6, 1), 0, 0, 1000, 0.8); done != 400 {
		t.Errorf("points that do not move: %d steps, want 400", done)
	}
	if _, done := descend(p, start(6, 1), 0, 0, 70, 0.8); done != 70 {
		t.Errorf("70 steps are %d", done)
	}
}

func TestAffinitiesOfADistantPointHaveThePerplexity(t *testing.T) {
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
