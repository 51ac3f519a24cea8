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

func TestConfusionAccuracies(t *testing.T) {
	c := example()
	if c.Images() != 20 || c.Top1() != 14.0/20 {
		t.Errorf("%d images, %g right, want 20 and 0.7", c.Images(), c.Top1())
	}
	got := c.Accuracy()
	if want := []Number{0.75, 0.75, 0.25, 1}; !reflect.DeepEqual(got[:4], want) || !math.IsNaN(float64(got[4])) {
		t.Errorf("got %v, want %v and NaN", got, want)
	}
}

func TestMostConfusedIsOrderedByImagesThenShareThenClass(t *testing.T) {
	want := []Confused{{2, 0, 2, 0.5}, {0, 2, 2, 0.25}, {1, 3, 1, 0.25}, {2, 4, 1, 0.25}}
	for k := range 6 {
		if got := example().MostConfused(k); !reflect.DeepEqual(got, want[:min(k, 4)]) && k > 0 {
			t.Errorf("%d: got %+v, want %+v", k, got, want[:min(k, 4)])
		}
	}
}

func TestConfusedTableAsText(t *testing.T) {
	want := `
class  called  images  % of class
─────  ──────  ──────  ──────────
cat    ape          2        50.0
ape    cat          2        25.0
bee    dog          1        25.0
`
	if got := "\n" + example().ConfusedTable(3).Text(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestClassTableStartsWithTheWorstClass(t *testing.T) {
	want := [][]string{{"cat", "25.0", "4", "ape"}, {"ape", "75.0", "8", "cat"}, {"bee", "75.0", "4", "dog"},
		{"dog", "100.0", "4", "–"}}
	if got := example().ClassTable(9).Rows; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestConfusionOfAnotherShapeIsAnError(t *testing.T) {
	for name, c := range map[string]Confusion{
		"no classes": {},
		"rows":       {Classes: []string{"a", "b"}, Counts: [][]int{{1, 2}}},
		"columns":    {Classes: []string{"a", "b"}, Counts: [][]int{{1, 2}, {3}}},
	} {
		if err := c.Draw(io.Discard, ""); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// boxOf is the smallest rectangle around all squares of 4 by 4 pixels of a colour, which letters do not have.
func boxOf(picture image.Image, want color.NRGBA) (box image.Rectangle) {
	is := func(x, y int) bool { return color.NRGBAModel.Convert(picture.At(x, y)) == want }
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y-4; y++ {
		for x := bounds.Min.X; x < bounds.Max.X-4; x++ {
			solid := is(x, y)
			for k := 0; solid && k < 16; k++ {
				solid = is(x+k%4, y+k/4)
			}
			if solid {
				box = box.Union(image.Rect(x, y, x+4, y+4))
			}
		}
	}
	return box
}

// The only mistake is the darkest cell. The grey diagonal spans the matrix, whose first class is at the top and left:
// with cells of 60 points, or 7 for a hundred classes, the place of the mistake follows.
func TestPictureOfAConfusionHasTheMistakeInItsRowAndColumn(t *testing.T) {
	for _, test := range []struct {
		classes, class, predicted int
		cell                      float64
	}{{4, 1, 3, 100}, {3, 2, 0, 100}, {100, 97, 2, 7. / 72 * dotsPerInch}} {
		t.Run(fmt.Sprint(test.classes), func(t *testing.T) {
			c := NewConfusion(make([]string, test.classes))
			for i := range c.Classes {
				c.Classes[i] = fmt.Sprintf("class %d", i)
				c.Counts[i][i] = 2
			}
			c.Counts[test.class][test.class], c.Counts[test.class][test.predicted] = 1, 1 // a share of 50 %
			var out bytes.Buffer
			if err := c.Draw(&out, "title"); err != nil {
				t.Fatal(err)
			}
			picture, _ := decode(t, out.Bytes())
			matrix := boxOf(picture, color.NRGBA{R: 0xe4, G: 0xe4, B: 0xe4, A: 0xff})
			if want := test.cell * float64(test.classes); math.Abs(float64(matrix.Dx())-want) > 3 ||
				math.Abs(float64(matrix.Dy())-want) > 3 {
				t.Errorf("the matrix is %v, want sides of %.1f", matrix.Size(), want)
			}
			mistake := boxOf(picture, color.NRGBA{R: 0x5c, G: 0x1d, B: 0x00, A: 0xff})
			for _, side := range []struct{ got, want float64 }{
				{float64(mistake.Min.X - matrix.Min.X), test.cell * float64(test.predicted)},
				{float64(mistake.Max.X - matrix.Min.X), test.cell * float64(test.predicted+1)},
				{float64(mistake.Min.Y - matrix.Min.Y), test.cell * float64(test.class)},
				{float64(mistake.Max.Y - matrix.Min.Y), test.cell * float64(test.class+1)},
			} {
				if math.Abs(side.got-side.want) > 3 {
					t.Errorf("the mistake is at %v in a matrix at %v, want row %d, column %d", mistake, matrix, test.class,
						test.predicted)
					break
				}
			}
		})
	}
}

func TestPictureOfAConfusionWritesNamesWhereThereIsRoom(t *testing.T) {
	for classes, want := range map[int]bool{2: true, 100: true, 400: false} {
		names := make([]string, classes)
		names[0] = "an <odd> & \"quoted\"\x00"
		names[1] = "a name that is much too long for a row"
		c := NewConfusion(names)
		c.Counts[1][0] = 3
		var out bytes.Buffer
		if err := c.DrawSVG(&out, "who is who"); err != nil {
			t.Fatal(err)
		}
		texts := strings.Join(wellFormed(t, out.String(), "text"), "\n")
		for _, name := range []string{"an <odd> & \"quoted\"", "a name that is much t…"} {
			if strings.Count(texts, name) == 2 != want { // once for the row, once for the column
				t.Errorf("%d classes: %q is written %d times", classes, name, strings.Count(texts, name))
			}
		}
		if !strings.Contains(texts, "who is who") {
			t.Errorf("no title in %q", texts)
		}
	}
}

func TestScaleOfColoursIsRoundAndHoldsTheLargestShare(t *testing.T) {
	for largest, want := range map[float64]float64{0.03: 0.05, 0.05: 0.05, 0.2: 0.2, 0.21: 0.5, 0.6: 1, 1: 1, 0: 0.001} {
		got := scale([][]float64{{0.9, largest, math.NaN()}, {0, 1, 0}, {0, 0, 1}})
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("largest %g: got %g, want %g", largest, got, want)
		}
	}
}
