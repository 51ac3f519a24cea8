// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
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

func TestLine_BandSkipsWhatIsNotFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	l := Line{X: []float64{1, 2, 3, 5, 8}, Low: []float64{0, 1, 1, inf, 2}, High: []float64{2, 3, nan, 5, 4}}
	want := plotter.XYs{{X: 1, Y: 2}, {X: 2, Y: 3}, {X: 5, Y: 5}, {X: 8, Y: 4}, {X: 8, Y: 2}, {X: 3, Y: 1}, {X: 2, Y: 1},
		{X: 1, Y: 0}}
	if got := l.band(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLineStyle_DotsOnceThePaletteRepeats(t *testing.T) {
	for i, dotted := range map[int]bool{3: false, 6: false, 7: true, 10: true} { // of seven colours
		if s := LineStyle(i, 1); s.Color != Palette[i%7] || (s.Dashes != nil) != dotted {
			t.Errorf("line %d: %+v", i, s)
		}
	}
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
	var content bytes.Buffer
	if err := ImageGrid(&content, rows); err != nil {
		t.Fatal(err)
	}
	figure, err := png.Decode(&content)
	if err != nil {
		t.Fatal(err)
	}
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

func TestHeatMap_NumbersAreInTheirCells(t *testing.T) {
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
