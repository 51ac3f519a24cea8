// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func TestLabelsAreMultiplesOfOneTwoOrFiveWithTheDecimalsThatTheyNeed(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		whole     bool
		want      string
	}{
		{2.5941, 2.5945, false, "2.5941 2.5942 2.5943 2.5944 2.5945"}, {0.02, 2.9, false, "0.5 1.0 1.5 2.0 2.5"},
		{0, 20000, true, "0 5000 10000 15000 20000"}, {-0.16, 0.09, false, "-0.15 -0.10 -0.05 0.00 0.05"},
		{-3e-7, 2e-7, false, "-0.0000003 -0.0000002 -0.0000001 0.0000000 0.0000001 0.0000002"},
		{1e4, 1e4 + 0.5, false, "10000.0 10000.1 10000.2 10000.3 10000.4 10000.5"}, {1, 2, true, "1 2"},
		{1, 2, false, "1.0 1.2 1.4 1.6 1.8 2.0"}, {1, 12, true, "2 4 6 8 10 12"}, {64, 94, false, "65 70 75 80 85 90"},
		{0, 10, true, "0 2 4 6 8 10"}, {0, 57, true, "0 10 20 30 40 50"}, {1e17, 1e17 + 16, false, ""},
		{3, math.NaN(), false, ""}, {-math.MaxFloat64, math.MaxFloat64, false, ""}, {0.25, 0.75, true, ""},
	} {
		var labels []string
		for _, tick := range (ticks{test.whole}).Ticks(test.low, test.high) {
			value, err := strconv.ParseFloat(tick.Label, 64)
			if tick.Value < test.low || tick.Value > test.high || test.whole && tick.Value != math.Trunc(tick.Value) ||
				!tick.IsMinor() && (err != nil || math.Abs(value-tick.Value) > 1e-6*(test.high-test.low)) {
				t.Errorf("%g to %g: %q at %g", test.low, test.high, tick.Label, tick.Value)
			}
			if !tick.IsMinor() {
				labels = append(labels, tick.Label)
			}
		}
		if got := strings.Join(labels, " "); got != test.want {
			t.Errorf("%g to %g: labels %s, want %s", test.low, test.high, got, test.want)
		}
	}
}

func TestMeasuredSizesAreLabelledUnlessTheyAreTooNear(t *testing.T) {
	p := New("", "", "")
	LabelX(p, []int{16, 24, 28, 32, 48, 96})
	var labels []string
	for _, tick := range p.X.Tick.Marker.Ticks(16, 96) {
		labels = append(labels, tick.Label)
	}
	if got := strings.Join(labels, " "); got != "16 24 32 48 96" { // 80/12 is more than 4 and less than 8
		t.Errorf("labels %s", got)
	}
}

func TestAnAxisOfEqualValuesHasRoomAroundThem(t *testing.T) {
	for _, test := range [][4]float64{{2, 2 + 1e-12, 1, 3}, {-4, -4, -6, -2}, {2, 2.5, 2, 2.5}, {0, 0, 0, 0}} {
		a := plot.Axis{Min: test[0], Max: test[1]}
		widen(&a)
		if math.Abs(a.Min-test[2]) > 1e-9 || math.Abs(a.Max-test[3]) > 1e-9 {
			t.Errorf("%v becomes %g to %g", test, a.Min, a.Max)
		}
	}
}

func TestAxesAreNumberedEvenly(t *testing.T) {
	for n, want := range map[int]string{1: "0", 4: "0 1 2 3", 8: "0 1 2 3 4 5 6 7", 14: "0 2 4 6 8 10 12",
		24: "0 3 6 9 12 15 18 21"} {
		for _, downwards := range []bool{false, true} {
			var labels []string
			for _, tick := range names(nil, n, downwards) {
				labels = append(labels, tick.Label)
				if at := int(tick.Value); tick.Value != float64(at) || downwards && tick.Label != fmt.Sprint(n-1-at) ||
					!downwards && tick.Label != fmt.Sprint(at) {
					t.Errorf("%d cells: %s stands at %d", n, tick.Label, at)
				}
			}
			if got := strings.Join(labels, " "); got != want {
				t.Errorf("%d cells are numbered %s, want %s", n, got, want)
			}
		}
	}
	long := "a name of more than twenty-two letters"
	for i, tick := range names([]string{"b", long, "é"}, 3, true) {
		if want := []string{"b", "a name of more than t…", "é"}[i]; tick.Label != want || tick.Value != float64(2-i) {
			t.Errorf("name %d is %q at %g, want %q", i, tick.Label, tick.Value, want)
		}
	}
	if n := len(names(make([]string, 29), 29, false)); n != 29 {
		t.Errorf("%d of 29 names", n)
	}
}

// The colours of Okabe and Ito (2008).
var (
	blue, vermillion = color.NRGBA{0, 114, 178, 255}, color.NRGBA{213, 94, 0, 255}
	green, purple    = color.NRGBA{0, 158, 115, 255}, color.NRGBA{204, 121, 167, 255}
)

// drawn is the PNG of a figure.
func drawn(t *testing.T, draw func(io.Writer) error) string {
	t.Helper()
	var content bytes.Buffer
	if err := draw(&content); err != nil {
		t.Fatal(err)
	}
	return content.String()
}

func decode(t *testing.T, draw func(io.Writer) error) image.Image {
	t.Helper()
	picture, err := png.Decode(strings.NewReader(drawn(t, draw)))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// same fails unless a figure equals plots drawn by hand side by side, of a size in inches.
func same(t *testing.T, name string, figure func(io.Writer) error, width, height vg.Length, plots ...*plot.Plot) {
	t.Helper()
	if drawn(t, figure) != drawn(t, func(w io.Writer) error {
		return Write(w, width*vg.Inch, height*vg.Inch, [][]*plot.Plot{plots})
	}) {
		t.Errorf("%s is not what is drawn by hand", name)
	}
}

func TestLinesHaveGapsBandsAndOneEntryForAName(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	at := []float64{1, 2, 3, 5, 8}
	lines := []Line{{Name: "a", X: at, Y: []float64{1, 2, nan, 4, 3}, Low: []float64{0, 1, 1, inf, 2},
		High: []float64{2, 3, nan, 5, 4}}, {Name: "b", X: at, Y: []float64{inf, 3, nan, 1, 2}},
		{Name: "a", X: at[:2], Y: []float64{5, 4}}}
	want := New("title", "across", "up")
	add := func(clr color.NRGBA, points ...plotter.XY) {
		want.Add(&plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: clr, Width: 1.6}})
	}
	entry := func(name string, clr color.NRGBA) {
		want.Legend.Add(name, &plotter.Line{LineStyle: draw.LineStyle{Color: clr, Width: 1.6}})
	}
	entry("a", blue)
	want.Add(&plotter.Polygon{Color: color.NRGBA{0, 114, 178, 0x28}, XYs: []plotter.XYs{{{X: 1, Y: 2}, {X: 2, Y: 3},
		{X: 5, Y: 5}, {X: 8, Y: 4}, {X: 8, Y: 2}, {X: 3, Y: 1}, {X: 2, Y: 1}, {X: 1, Y: 0}}}})
	add(blue, plotter.XY{X: 1, Y: 1}, plotter.XY{X: 2, Y: 2})
	add(blue, plotter.XY{X: 5, Y: 4}, plotter.XY{X: 8, Y: 3})
	entry("b", vermillion)
	want.Add(&plotter.Scatter{XYs: plotter.XYs{{X: 2, Y: 3}}, GlyphStyle: draw.GlyphStyle{Color: vermillion, Radius: 2.4,
		Shape: draw.CircleGlyph{}}})
	add(vermillion, plotter.XY{X: 5, Y: 1}, plotter.XY{X: 8, Y: 2})
	add(blue, plotter.XY{X: 1, Y: 5}, plotter.XY{X: 2, Y: 4})
	same(t, "Lines", func(w io.Writer) error { return Lines(w, "title", "across", "up", lines) }, 5.5, 4.5, want)
	for i, dotted := range map[int]bool{3: false, 6: false, 7: true, 10: true} { // of seven colours
		if s := LineStyle(i, 1); s.Color != Palette[i%7] || (s.Dashes != nil) != dotted {
			t.Errorf("line %d: %+v", i, s)
		}
	}
	if Palette[3] != purple {
		t.Errorf("the fourth colour is %v", Palette[3])
	}
}

func TestCloudsAreColouredFromTheLeastToTheGreatestValue(t *testing.T) {
	clouds := []Cloud{
		{Title: "one", X: []float64{1, 2, 3, 4, math.NaN()}, Y: []float64{4, 1, math.Inf(1), 2, 1},
			Value: []float64{-3, 5, 9, 1, -9}},
		{Title: "two", Across: "across", Down: "down", X: []float64{1, 2}, Y: []float64{3, 1}, Value: []float64{7,
			math.NaN()}},
		{Title: "three", X: []float64{1, 1.5}, Y: []float64{3, 2}}}
	var plots []*plot.Plot
	for i, finite := range []plotter.XYs{{{X: 1, Y: 4}, {X: 2, Y: 1}, {X: 4, Y: 2}}, {{X: 1, Y: 3}, {X: 2, Y: 1}},
		{{X: 1, Y: 3}, {X: 1.5, Y: 2}}} {
		p := New(clouds[i].Title, clouds[i].Across, clouds[i].Down)
		p.Add(&plotter.Scatter{XYs: finite, GlyphStyleFunc: func(k int) draw.GlyphStyle {
			colours := moreland.SmoothBlueRed()
			colours.SetMin(0)
			colours.SetMax(1)
			share := [][]float64{{0, 1, 0.5}, {0, math.NaN()}, {0, 1}}[i][k] // of -3, 5 and 1; of 7 alone, and grey
			clr, err := colours.At(share)
			if err != nil {
				clr = color.Gray{Y: 0x80}
			}
			if i == 2 {
				clr = blue
			}
			return draw.GlyphStyle{Color: clr, Radius: 2.5, Shape: draw.CircleGlyph{}}
		}})
		plots = append(plots, p)
	}
	plots[2].X.Tick.Marker = ticks{} // 1.5 is not a whole number
	same(t, "Clouds", func(w io.Writer) error { return Clouds(w, clouds) }, 9.6, 3, plots...)
}

func TestImagesStandInAGridOfTilesAsHighAsTheFirst(t *testing.T) {
	tile := func(width, height int, top, bottom color.Color) image.Image {
		out := image.NewRGBA(image.Rect(3, 5, 3+width, 5+height))
		for i := range width * height {
			clr := top
			if i/width >= height/2 {
				clr = bottom
			}
			out.Set(3+i%width, 5+i/width, clr)
		}
		return out
	}
	rows := [][]image.Image{{tile(3, 2, blue, green), tile(6, 4, purple, purple)},
		{tile(1, 8, green, blue), tile(3, 2, blue, blue)},
		{tile(3, 2, vermillion, green), tile(3, 2, green, vermillion)}}
	figure := decode(t, func(w io.Writer) error { return ImageGrid(w, rows) })
	if got, want := figure.Bounds().Size(), image.Pt(2*168+6, 3*112+2*6); got != want {
		t.Fatalf("size %v, want %v", got, want)
	}
	halves := [][][2]color.NRGBA{{{blue, green}, {purple, purple}}, {{green, blue}, {blue, blue}},
		{{vermillion, green}, {green, vermillion}}}
	for y := range 3*112 + 2*6 {
		for x := range 2*168 + 6 {
			want := color.NRGBA{255, 255, 255, 255}
			if x%174 < 168 && y%118 < 112 {
				want = halves[y/118][x/174][y%118/56]
			}
			if got := color.NRGBAModel.Convert(figure.At(x, y)); got != want {
				t.Fatalf("pixel %d, %d is %v, want %v", x, y, got, want)
			}
		}
	}
}

func TestTheLegendIsRightOfTheLinesAndBelowTheTitle(t *testing.T) {
	p := New("a title", "", "")
	p.Legend.Add("entry", &plotter.Line{LineStyle: draw.LineStyle{Color: blue, Width: 9}})
	figure := decode(t, func(w io.Writer) error { return Write(w, 400, 300, [][]*plot.Plot{{p}}) })
	var where image.Rectangle
	size := figure.Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			if color.NRGBAModel.Convert(figure.At(x, y)) == blue {
				where = where.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if where.Empty() || where.Min.X < size.X*3/4 || where.Min.Y < 20 || where.Max.Y > size.Y/3 {
		t.Errorf("the line of the legend is at %v of %v", where, size)
	}
}

// changed are the pixels in which a heat map becomes another, those of a frame alone that become black from a cell's
// colour: a frame moves the axes by a pixel.
func changed(t *testing.T, a, b HeatMap) (where image.Rectangle, is map[image.Point]bool) {
	t.Helper()
	one := decode(t, func(w io.Writer) error { return HeatMaps(w, [][]HeatMap{{a}}) })
	other := decode(t, func(w io.Writer) error { return HeatMaps(w, [][]HeatMap{{b}}) })
	if one.Bounds() != other.Bounds() {
		t.Fatalf("sizes %v and %v", one.Bounds(), other.Bounds())
	}
	is = map[image.Point]bool{}
	for y := range one.Bounds().Dy() {
		for x := range one.Bounds().Dx() {
			r, _, _, _ := other.At(x, y).RGBA()
			was, zero := one.At(x, y), one.At(one.Bounds().Dx()/2, one.Bounds().Dy()/2)
			if was != other.At(x, y) && (b.Outlined == nil || was == zero && r < 0x4000) {
				where, is[image.Pt(x, y)] = where.Union(image.Rect(x, y, x+1, y+1)), true
			}
		}
	}
	return where, is
}

func TestAFrameAndANumberAreInTheirCell(t *testing.T) {
	base := HeatMap{Values: [][]float64{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, Limit: 1}
	for _, at := range [][2]int{{0, 1}, {2, 4}, {1, 0}} {
		filled := base
		filled.Values = [][]float64{make([]float64, 5), make([]float64, 5), make([]float64, 5)}
		filled.Values[at[0]][at[1]] = 0.375
		cell, _ := changed(t, base, filled)
		framed, numbered := base, filled
		framed.Outlined, numbered.Numbers = &at, true
		frame, black := changed(t, base, framed)
		number, _ := changed(t, filled, numbered)
		if cell.Dx() < 20 || !cell.Inset(3).In(frame) || !frame.In(cell.Inset(-3)) { // half a line of 1.5 points is 1¼ pixels
			t.Errorf("cell %v fills %v, its frame %v", at, cell, frame)
		}
		x, y := (frame.Min.X+frame.Max.X)/2, (frame.Min.Y+frame.Max.Y)/2
		if !black[image.Pt(x, frame.Min.Y)] || !black[image.Pt(x, frame.Max.Y-1)] || !black[image.Pt(frame.Min.X, y)] ||
			!black[image.Pt(frame.Max.X-1, y)] {
			t.Errorf("the frame of cell %v, %v, lacks a side", at, frame)
		}
		middle := number.Min.Add(number.Max).Sub(cell.Min.Add(cell.Max)) // twice the distance
		if number.Empty() || !number.In(cell) || max(middle.X, -middle.X, middle.Y, -middle.Y) > 6 {
			t.Errorf("cell %v fills %v, its number %v", at, cell, number)
		}
	}
	h := HeatMap{Values: [][]float64{{0.25, 0, math.NaN()}, {0.61, 0.59, -0.75}}, Limit: 1, Numbers: true}
	labels := h.numbers()
	for i, want := range []struct {
		at    plotter.XY
		text  string
		white bool
	}{{plotter.XY{X: 0, Y: 1}, "25.0", false}, {plotter.XY{X: 0, Y: 0}, "61.0", true},
		{plotter.XY{X: 1, Y: 0}, "59.0", false}, {plotter.XY{X: 2, Y: 0}, "-75.0", false}} {
		if labels.XYs[i] != want.at || labels.Labels[i] != want.text ||
			(labels.TextStyle[i].Color == color.White) != want.white {
			t.Errorf("number %d: %q at %v, want %+v", i, labels.Labels[i], labels.XYs[i], want)
		}
	}
	if len(labels.Labels) != 4 {
		t.Errorf("numbers %q, want none of 0 and NaN", labels.Labels)
	}
}
