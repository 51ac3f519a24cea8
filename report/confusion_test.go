// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// example has five classes of unequal size, the last without images.
func example() Confusion {
	return Confusion{Classes: strings.Fields("ape bee cat dog elk"), Counts: [][]int{
		{6, 0, 2, 0, 0}, // 8
		{0, 3, 0, 1, 0}, // 4
		{2, 0, 1, 0, 1}, // 4
		{0, 0, 0, 4, 0}, // 4
		{0, 0, 0, 0, 0},
	}}
}

func TestConfusion_MistakesAreOrderedByImagesThenShare(t *testing.T) {
	want := [][]string{{"cat", "ape", "2", "50.0"}, {"ape", "cat", "2", "25.0"}, {"bee", "dog", "1", "25.0"},
		{"cat", "elk", "1", "25.0"}}
	for k := 1; k < 6; k++ {
		if got := example().mistakes(k).Rows; !reflect.DeepEqual(got, want[:min(k, 4)]) {
			t.Errorf("%d: got %v, want %v", k, got, want[:min(k, 4)])
		}
	}
}

func TestConfusion_WorstStartsWithTheLowestF1(t *testing.T) {
	want := [][]string{{"cat", "ape", "4", "33.3", "25.0", "28.6"}, {"ape", "cat", "8", "75.0", "75.0", "75.0"},
		{"bee", "dog", "4", "100.0", "75.0", "85.7"}, {"dog", "–", "4", "80.0", "100.0", "88.9"}}
	for _, k := range []int{2, 9} {
		if got := example().Worst(k).Rows; !reflect.DeepEqual(got, want[:min(k, 4)]) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	c := example()
	if c.Worst(4); !reflect.DeepEqual(c, example()) {
		t.Errorf("the counts have changed: %v", c.Counts)
	}
	never := Confusion{Classes: []string{"ant", "bug"}, Counts: [][]int{{0, 1}, {0, 3}}}.Worst(1) // ant is never predicted
	want = [][]string{{"ant", "bug", "1", "–", "0.0", "0.0"}}
	if !reflect.DeepEqual(never.Rows, want) {
		t.Errorf("got %v, want %v", never.Rows, want)
	}
}

// With its diagonal, each row of one scale; of a class without images nothing is known.
func TestConfusion_MapHasAllSharesOfEachClass(t *testing.T) {
	h := example().heatMap()
	for class, want := range [][]float64{{.75, 0, .25, 0, 0}, {0, .75, 0, .25, 0}, {.5, 0, .25, 0, .25}, {0, 0, 0, 1, 0}} {
		if !slices.Equal(h.Values[class], want) || h.Limit != 1 {
			t.Errorf("class %d: %v to %g, want %v to 1", class, h.Values[class], h.Limit, want)
		}
	}
	if !math.IsNaN(h.Values[4][4]) {
		t.Errorf("the class without images has %v", h.Values[4])
	}
}

// The numbers are scikit-learn's classification_report by hand: a found 3 of 4, b 1 of 3 with a's one miss, c none.
func TestConfusion_ScoresArePrecisionRecallAndF1(t *testing.T) {
	nan := math.NaN()
	c := Confusion{Classes: []string{"a", "b", "c", "d"},
		Counts: [][]int{{3, 1, 0, 0}, {2, 1, 0, 0}, {0, 2, 0, 0}, {0, 0, 0, 0}}}
	want := [][3]float64{{3. / 5, 3. / 4, 2. / 3}, {1. / 4, 1. / 3, 2. / 7}, {nan, 0, 0}, {nan, nan, nan}}
	for i, s := range c.Scores() {
		for k, got := range []JSONFloat{s.Precision, s.Recall, s.F1} {
			if w := want[i][k]; math.IsNaN(w) != math.IsNaN(float64(got)) || math.Abs(float64(got)-w) > 1e-15 {
				t.Errorf("class %s: score %d is %v, want %v", s.Class, k, got, w)
			}
		}
	}
	if got := float64(c.MacroF1()); !(math.Abs(got-(2./3+2./7)/3) <= 1e-15) {
		t.Errorf("macro F1 %v", got)
	}
	if got := (Confusion{Classes: []string{"a", "b"}, Counts: [][]int{{1, 0}, {0, 1}}}).MacroF1(); got != 1 {
		t.Errorf("macro F1 of one right image for each class %v", got)
	}
}
