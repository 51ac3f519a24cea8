// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/gomlxtest"
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
	c := example()
	if c.Worst(4); !reflect.DeepEqual(c, example()) {
		t.Errorf("the counts have changed: %v", c.Counts)
	}
	never := Confusion{Classes: []string{"ant", "bug"}, Counts: [][]int{{0, 1}, {0, 3}}}.Worst(1) // ant is never predicted
	want = [][]string{{"ant", "1", "–", "0.0", "0.0", "bug"}}
	if !reflect.DeepEqual(never.Rows, want) {
		t.Errorf("got %v, want %v", never.Rows, want)
	}
	if header := strings.Join(never.Header, ", "); header != "class, images, precision %, recall %, F1 %, mistaken for" ||
		!reflect.DeepEqual(never.Numeric, []bool{false, true, true, true, true, false}) {
		t.Errorf("columns %s, of numbers %v", header, never.Numeric)
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

// The recall stays beside a name that is cut; a row without images is grey on its diagonal too.
func TestTheMatrixShowsTheSharesOfMistakesAndTheRecallBesideTheName(t *testing.T) {
	nan := math.NaN()
	c := example()
	c.Classes[0] = "a name of more than twenty-two letters"
	drawn(t, "five classes", c, figure.HeatMap{Title: "confusion matrix, darkest 50 %", Limit: 0.5, Positive: true,
		Numbers: true, Values: [][]float64{{0, 0, 0.25, 0, 0}, {0, 0, 0, 0.25, 0}, {0.5, 0, 0, 0, 0.25}, {0, 0, 0, 0, 0},
			{nan, nan, nan, nan, nan}},
		Rows: []string{"a name of more tha… 75", "bee 75", "cat 25", "dog 100", "elk –"}, Cols: c.Classes})
	for _, classes := range []int{12, 13} { // at most 12 have room for numbers
		c, want := NewConfusion(make([]string, classes)), figure.HeatMap{Title: "confusion matrix, darkest 33.3 %",
			Limit: 1. / 3, Positive: true, Numbers: classes == 12, Cols: make([]string, classes)}
		for i := range classes {
			c.Counts[i][i] = 2
			want.Values, want.Rows = append(want.Values, make([]float64, classes)), append(want.Rows, " 100")
		}
		c.Counts[1][7], want.Values[1][7], want.Rows[1] = 1, 1./3, " 67"
		drawn(t, fmt.Sprint(classes), c, want)
	}
	drawn(t, "no mistake", Confusion{Classes: []string{"a", "b"}, Counts: [][]int{{3, 0}, {0, 5}}}, figure.HeatMap{
		Title: "confusion matrix, darkest 0.1 %", Limit: 0.001, Positive: true, Numbers: true,
		Values: [][]float64{{0, 0}, {0, 0}}, Rows: []string{"a 100", "b 100"}, Cols: []string{"a", "b"}})
}

// With a name for each row and column the image of n classes has more than n² · 100 pixels.
func TestAMatrixOfManyClassesHasNoNames(t *testing.T) {
	for classes, most := range map[int]int{200: 1 << 24, 331: 1 << 20} {
		figure, _ := decode(t, NewConfusion(make([]string, classes)).draw)
		if size := figure.Bounds().Size(); size.X*size.Y > most {
			t.Errorf("%d classes: %v", classes, size)
		}
	}
}

// drawn fails unless a confusion is drawn as a heat map.
func drawn(t *testing.T, name string, c Confusion, want figure.HeatMap) {
	t.Helper()
	want.Down, want.Across = "class, recall %", "predicted"
	byHand := func(w io.Writer) error { return figure.HeatMaps(w, [][]figure.HeatMap{{want}}) }
	if !bytes.Equal(gomlxtest.Must(NewFigure("", "", c.draw))(t).PNG, gomlxtest.Must(NewFigure("", "", byHand))(t).PNG) {
		t.Errorf("%s: the matrix is not what is drawn by hand", name)
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
	if got := (Confusion{Classes: []string{"a", "b"}, Counts: [][]int{{1, 0}, {0, 1}}}).MacroF1(); got != 1 {
		t.Errorf("macro F1 of one right image for each class %v", got)
	}
}
