// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package figure

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/is"

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
		is.Equal(t, fmt.Sprint(test.low, " to ", test.high), strings.Join(labels, " "), test.want)
	}
}

func TestMeasuredSizesAreLabelledUnlessTheyAreTooNear(t *testing.T) {
	got := ""
	for _, tick := range labelled([]int{16, 24, 28, 32, 48, 96}) {
		got += tick.Label + " "
	}
	if got != "16 24 32 48 96 " { // 80/12 is more than 4 and less than 8
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

func TestLine_BandHasGapsWhereItIsNotFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	l := Line{X: []float64{1, 2, 3, 5, 8}, Low: []float64{0, 1, 1, inf, 2}, High: []float64{2, 3, nan, 5, 4}}
	want := []plotter.XYs{{{X: 1, Y: 2}, {X: 2, Y: 3}, {X: 2, Y: 1}, {X: 1, Y: 0}}, {{X: 8, Y: 4}, {X: 8, Y: 2}}}
	if got := l.bands(); !slices.EqualFunc(got, want, slices.Equal[plotter.XYs]) {
		t.Errorf("%v, want %v", got, want)
	}
}

// An encoding has its colour beside any others; names of none share no colour until all are taken.
func TestColours_AreOfTheEncoding(t *testing.T) {
	alone := map[string]int{}
	for _, name := range encodings {
		alone[name] = colours([]Line{{Name: name}})[name]
	}
	for _, names := range [][]string{{"hybrid", "wepe-v", "learned"}, {"wepe, 20%", "learned, 20%", "wepe, 100%", "none"},
		{"rope-dinov3", "cpe", "alibi2d", "none", "sincos2d", "wepe-sphere", "fourier-v", "rope-mixed", "wepe-v", "wepe"},
		{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}} {
		var lines []Line
		for _, name := range slices.Concat(names, names) { // with their training loss
			lines = append(lines, Line{Name: name})
		}
		got, seen := colours(lines), map[int]bool{}
		for _, name := range names {
			encoding, more, _ := strings.Cut(name, ",")
			want, fixed := alone[encoding]
			if place, has := got[name]; !has || seen[place] || fixed && more != " 100%" && place != want {
				t.Errorf("%q of %q has place %d", name, names, place)
			}
			seen[got[name]] = true
		}
	}
}

// Colours rise with the square root of the values, to the same limit.
func TestHeatMap_RootsShowSmallValues(t *testing.T) {
	m := matrix{HeatMap{Values: [][]float64{{0, 0.5, 0.02}, {2, 3, math.NaN()}}, Limit: 2, Root: true}, 0}
	for i, want := range []float64{2, 2, math.NaN(), 0, 1, 0.2} { // √(v·2), from the lower row
		if got := m.Z(i%3, i/3); !(math.Abs(got-want) < 1e-12) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("cell %d: %g, want %g", i, got, want)
		}
	}
}

// A panel for each feature, then the similarity to the outlined centre, 0 of a zero vector.
func TestField_Panels(t *testing.T) {
	f := Field{Title: "wepe", Rows: 2, Cols: 3, Names: []string{"a", "b"},
		Features: []float64{1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60},
		Vectors:  []float64{0, 0, math.NaN(), 1, 3, 4, 0, 3, 5, 0, -1, 0}}
	for i, want := range []string{"[[1 2 3] [4 5 6]]", "[[10 20 30] [40 50 60]]", "[[0 NaN 0.6] [0 1 -1]]"} { // to (5, 0)
		p := f.panels()[i]
		if got := fmt.Sprint(p.Values); got != want || (p.Outlined != nil) != (i == 2) {
			t.Errorf("panel %d: %s, outlined %v, want %s", i, got, p.Outlined, want)
		}
	}
}
