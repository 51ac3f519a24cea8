// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/figure"
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
	want := [][]string{{"cat", "4", "33.3", "25.0", "28.6", "ape"}, {"ape", "8", "75.0", "75.0", "75.0", "cat"},
		{"bee", "4", "100.0", "75.0", "85.7", "dog"}, {"dog", "4", "80.0", "100.0", "88.9", "–"}}
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
	want = [][]string{{"ant", "1", "–", "0.0", "0.0", "bug"}}
	if !reflect.DeepEqual(never.Rows, want) {
		t.Errorf("got %v, want %v", never.Rows, want)
	}
}

// The recall stays beside a name that is cut; a row without images is not a number on its diagonal too.
func TestConfusion_HeatMapHasTheSharesOfErrors(t *testing.T) {
	nan := math.NaN()
	c := example()
	c.Classes[0] = "a name of more than twenty-two letters"
	right := Confusion{Classes: []string{"a", "b"}, Counts: [][]int{{3, 0}, {0, 5}}}
	for _, test := range []struct {
		c    Confusion
		want figure.HeatMap
	}{
		{c, figure.HeatMap{Limit: 0.5, Numbers: true, Values: [][]float64{{0, 0, 0.25, 0, 0}, {0, 0, 0, 0.25, 0},
			{0.5, 0, 0, 0, 0.25}, {0, 0, 0, 0, 0}, {nan, nan, nan, nan, nan}},
			Rows: []string{"a name of more tha… 75", "bee 75", "cat 25", "dog 100", "elk –"}}},
		// Without errors the diagonal is drawn.
		{right, figure.HeatMap{Limit: 1, Numbers: true, Values: [][]float64{{1, 0}, {0, 1}},
			Rows: []string{"a 100", "b 100"}}},
	} {
		test.want.Cols = test.c.Classes
		got := test.c.heatMap()
		if fmt.Sprint(got.Values, got.Rows, got.Cols, got.Limit, got.Numbers) !=
			fmt.Sprint(test.want.Values, test.want.Rows, test.want.Cols, test.want.Limit, test.want.Numbers) || !got.Positive {
			t.Errorf("got %+v, want %+v", got, test.want)
		}
	}
	for classes, want := range map[int][2]bool{12: {true, true}, 13: {false, true}, 201: {false, false}} {
		h := NewConfusion(make([]string, classes)).heatMap()
		if got := [2]bool{h.Numbers, h.Cols != nil && h.Rows != nil}; got != want {
			t.Errorf("%d classes: numbers and names %v, want %v", classes, got, want)
		}
	}
}

// The numbers are scikit-learn's classification_report by hand: a found 3 of 4, b 1 of 3 with a's one miss, c none.
func TestConfusion_ScoresArePrecisionRecallAndF1(t *testing.T) {
	nan := math.NaN()
	c := Confusion{Classes: []string{"a", "b", "c", "d"},
		Counts: [][]int{{3, 1, 0, 0}, {2, 1, 0, 0}, {0, 2, 0, 0}, {0, 0, 0, 0}}}
	want := [][3]float64{{3. / 5, 3. / 4, 2. / 3}, {1. / 4, 1. / 3, 2. / 7}, {nan, 0, 0}, {nan, nan, nan}}
	for i, s := range c.Scores() {
		for k, got := range []Number{s.Precision, s.Recall, s.F1} {
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
