// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"reflect"
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

func TestMistakesAreOrderedByImagesThenShareThenClass(t *testing.T) {
	want := [][]string{{"cat", "ape", "2", "50.0"}, {"ape", "cat", "2", "25.0"}, {"bee", "dog", "1", "25.0"},
		{"cat", "elk", "1", "25.0"}}
	for k := 1; k < 6; k++ {
		if got := example().mistakes(k).Rows; !reflect.DeepEqual(got, want[:min(k, 4)]) {
			t.Errorf("%d: got %v, want %v", k, got, want[:min(k, 4)])
		}
	}
	if got := example().mistakes(1).Numeric; !reflect.DeepEqual(got, []bool{false, false, true, true}) {
		t.Errorf("columns of numbers %v", got)
	}
}

func TestTheClassesOfLowestF1ComeFirst(t *testing.T) {
	want := [][]string{{"cat", "4", "33.3", "25.0", "28.6", "ape"}, {"ape", "8", "75.0", "75.0", "75.0", "cat"},
		{"bee", "4", "100.0", "75.0", "85.7", "dog"}, {"dog", "4", "80.0", "100.0", "88.9", "–"}}
	for _, k := range []int{2, 9} {
		if got := example().Worst(k).Rows; !reflect.DeepEqual(got, want[:min(k, 4)]) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// The first class is at the top left.
func TestTheMatrixOfAConfusionHasTheMistakeInItsRowAndColumn(t *testing.T) {
	for _, test := range []struct{ classes, class, predicted int }{{4, 1, 3}, {3, 2, 0}, {97, 89, 2}} {
		c := NewConfusion(make([]string, test.classes))
		for i := range c.Classes {
			c.Classes[i] = fmt.Sprintf("class %d", i)
			c.Counts[i][i] = 2
		}
		c.Counts[test.class][test.class], c.Counts[test.class][test.predicted] = 1, 1 // a share of 50 %
		figure, _ := decode(t, c.draw)
		// Cells without a mistake have the lightest colour, the mistake the darkest of the map.
		light, dark := boxOf(figure, color.NRGBA{R: 0xff, G: 0xf5, B: 0xf0, A: 0xff}),
			boxOf(figure, color.NRGBA{R: 0x67, G: 0x00, B: 0x0d, A: 0xff})
		cell := float64(light.Dx()) / float64(test.classes)
		col := float64(dark.Min.X-light.Min.X) / cell
		row := float64(dark.Min.Y-light.Min.Y) / (float64(light.Dy()) / float64(test.classes))
		if !(math.Abs(col-float64(test.predicted)) <= 0.3) || !(math.Abs(row-float64(test.class)) <= 0.3) {
			t.Errorf("%d classes: the mistake is at row %.2f, column %.2f, want %d, %d", test.classes, row, col, test.class,
				test.predicted)
		}
	}
}

// boxOf is the smallest rectangle around all squares of 3 by 3 pixels of a colour, which letters do not contain.
func boxOf(figure image.Image, want color.NRGBA) (box image.Rectangle) {
	is := func(x, y int) bool { return color.NRGBAModel.Convert(figure.At(x, y)) == want }
	bounds := figure.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y-3; y++ {
		for x := bounds.Min.X; x < bounds.Max.X-3; x++ {
			solid := is(x, y)
			for k := 0; solid && k < 9; k++ {
				solid = is(x+k%3, y+k/3)
			}
			if solid {
				box = box.Union(image.Rect(x, y, x+3, y+3))
			}
		}
	}
	return box
}

// The numbers are scikit-learn's classification_report by hand: a found 3 of 4, b 1 of 3 with a's one miss, c none.
func TestScoresArePrecisionRecallAndF1(t *testing.T) {
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
}
