// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package numeric

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/support/xslices"
	"gonum.org/v1/gonum/floats"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// scikit is testdata/features.json, see the README there.
type scikit struct {
	Points, Queries [][]float64
	Labels          []int
	Classes, K      int
	Temperature     float64
	Cosines, Votes  [][]float64
	Index, Others   [][]int
	Fits            []struct {
		L2            float64
		Weights       [][]float64 // [width][classes]
		Biases        []float64
		Probabilities [][]float64 // [queries][classes]
	}
}

func readScikit(t *testing.T) (s scikit) {
	t.Helper()
	gomlxtest.NoError(t, json.Unmarshal(gomlxtest.Must(os.ReadFile("testdata/features.json"))(t), &s))
	return s
}

func narrow(rows [][]float64) []float32 {
	return xslices.Map(slices.Concat(rows...), func(v float64) float32 { return float32(v) })
}

func indices(all [][]Neighbour) [][]int {
	return xslices.Map(all, func(near []Neighbour) []int {
		return xslices.Map(near, func(n Neighbour) int { return n.Index })
	})
}

func TestNearestAndTheirVotesAreThoseOfScikitLearn(t *testing.T) {
	s := readScikit(t)
	width := len(s.Points[0])
	found, others := Nearest(narrow(s.Queries), narrow(s.Points), width, s.K), Nearest(nil, narrow(s.Points), width, s.K)
	got, want := fmt.Sprint(indices(found), indices(others)), fmt.Sprint(s.Index, s.Others)
	is.Equal(t, "nearest and nearest others", got, want)
	votes := Votes(found, s.Labels, s.Classes, s.Temperature)
	for i, near := range found {
		cosines := xslices.Map(near, func(n Neighbour) float32 { return n.Cosine })
		gomlxtest.NearAbs(t, "cosines", cosines, s.Cosines[i], 1e-6)
		want := slices.Clone(s.Votes[i])
		floats.Scale(math.Exp(-s.Cosines[i][0]/s.Temperature), want)
		gomlxtest.NearAbs(t, "votes", votes[i], want, 1e-5)
	}
}

func TestNearestOfFewAndOfEqualPoints(t *testing.T) {
	zero := []float32{0, 0, 0}
	ties := []float32{0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1} // 1, 3, 4 and 5 at the cosine 1, the others at 0
	for _, c := range []struct {
		name            string
		queries, points []float32
		width, k        int
		want            string // of indices
	}{
		{"more neighbours than points", []float32{1, 2, 3}, []float32{1, 0, 0, 1, 2, 3}, 3, 7, "[[1 0]]"},
		{"more neighbours than others", nil, []float32{1, 0, 5, 1, 2, 1}, 2, 7, "[[1 2] [0 2] [1 0]]"},
		{"equal points, the first first", []float32{3, 1}, slices.Repeat([]float32{2, 5}, 5), 2, 3, "[[0 1 2]]"},
		{"a cut between equals", []float32{3, 0}, ties, 2, 2, "[[1 3]]"},
		{"equals behind equals", []float32{3, 0}, ties, 2, 7, "[[1 3 4 5 0 2 6]]"},
		{"a query of zero", zero, []float32{1, 2, 3, 3, 2, 1}, 3, 2, "[[0 1]]"},
		{"a point of zero between two", []float32{1, 1, 1},
			slices.Concat([]float32{-1, -1, -1}, zero, []float32{0, 0, 1}), 3, 3,
			"[[2 1 0]]"},
		{"no points", []float32{1, 2, 3, 4}, nil, 2, 3, "[[] []]"},
		{"one point and no other", nil, []float32{1, 2, 3}, 3, 2, "[[]]"},
	} {
		is.Equal(t, c.name, fmt.Sprint(indices(Nearest(c.queries, c.points, c.width, c.k))), c.want)
	}
}

// 256 queries are in a block; queries that are points find themselves.
func TestNearest_FindsManyBlockByBlock(t *testing.T) {
	const width, points, queries = 3, 1 << 14, 263
	draw := rand.New(rand.NewPCG(5, 7))
	values := make([]float32, width*points)
	for i := range values {
		values[i] = float32(draw.NormFloat64())
	}
	found := Nearest(values[:width*queries], values, width, 2)
	for i, near := range found {
		if near[0].Index != i || !(near[0].Cosine >= near[1].Cosine) {
			t.Errorf("query %d finds %v", i, near)
		}
	}
	is.Equal(t, "answers", len(found), queries)
}

func TestLogisticRegressionIsThatOfScikitLearn(t *testing.T) {
	s := readScikit(t)
	points, n := slices.Concat(s.Points...), float64(len(s.Labels))
	// The smallest gradient g that a line search can reach in float64: along g it lowers a loss f, whose gradient has the
	// Lipschitz constant Λ, by at most g²/2Λ, which is lost in the rounding of f, a sum of n terms: n·2⁻⁵³·f. The Hessian
	// of the cross-entropy is at most ½ of the Hessian of ½‖x‖²+½, so Λ ≤ ½·mean(‖x‖² + 1) + L2 (Böhning 1992).
	curvature := (floats.Dot(points, points)/n + 1) / 2
	var from *LogisticFit
	for _, want := range s.Fits {
		for _, start := range []*LogisticFit{nil, from} { // both starts converge to the same minimum
			fit := gomlxtest.Must(LogisticRegression(points, s.Labels, s.Classes, want.L2, 1e-9, start))(t)
			limit := max(1e-9, math.Sqrt(2*(curvature+want.L2)*n*0x1p-53*fit.Loss))
			is.Near(t, fmt.Sprintf("gradient, L2 %g", want.L2), fit.Gradient, 0, limit)
			gomlxtest.NearAbs(t, "weights", fit.Weights, slices.Concat(want.Weights...), 1e-6)
			mean := floats.Sum(want.Biases) / float64(s.Classes) // on which the loss does not depend
			floats.AddConst(-mean, want.Biases)
			floats.AddConst(-floats.Sum(fit.Biases)/float64(s.Classes), fit.Biases)
			gomlxtest.NearAbs(t, "biases", fit.Biases, want.Biases, 1e-6)
			for i, logits := range fit.Scores(slices.Concat(s.Queries...)) {
				gomlxtest.NearAbs(t, "probabilities", softmax(logits), want.Probabilities[i], 1e-6)
			}
			from = fit
		}
	}
}

func softmax(logits []float32) []float64 {
	odds := xslices.Map(logits, func(v float32) float64 { return math.Exp(float64(v)) })
	floats.Scale(1/floats.Sum(odds), odds)
	return odds
}

func TestLogisticRegressionOfConstantPointsPredictsClassShares(t *testing.T) {
	labels := []int{2, 0, 2, 2, 1, 2, 0}
	flat := make([]float64, 3*len(labels))
	fit := gomlxtest.Must(LogisticRegression(flat, labels, 5, 0.1, 1e-9, nil))(t)
	// The likeliest probabilities are the class shares; a class without images has probability 0, at an infinite bias.
	odds := softmax(fit.Scores(make([]float64, 3))[0])
	gomlxtest.NearAbs(t, "shares", odds, []float64{2. / 7, 1. / 7, 4. / 7, 0, 0}, 1e-6)
	if fit, err := LogisticRegression([]float64{0, math.NaN()}, []int{0, 1}, 2, 0.1, 1e-9, nil); err == nil {
		t.Errorf("of a point that is not a number: %+v", fit)
	}
}

func TestSimilarities_AreCosines(t *testing.T) {
	got := Similarities([]float64{3, 4, -3, -4, 4, -3, 6, 8, 0, 0, 1, 0}, 6)
	gomlxtest.NearAbs(t, "to the first", got[:6], []float64{1, -1, 0, 1, 0, 0.6}, 1e-15)
}
