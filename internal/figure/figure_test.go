// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package figure

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestALineWithAGapIsTwoLines(t *testing.T) {
	lines := func(lines ...Line) string {
		var content bytes.Buffer
		if err := Lines(&content, "", "", "", lines); err != nil {
			t.Fatal(err)
		}
		return content.String()
	}
	broken := lines(Line{Name: "a", X: []float64{0, 1, 2, 3, 4}, Y: []float64{1, 2, math.NaN(), 3, 1}})
	if broken != lines(Line{Name: "a", X: []float64{0, 1}, Y: []float64{1, 2}},
		Line{Name: "a", X: []float64{3, 4}, Y: []float64{3, 1}}) {
		t.Error("a line with a gap is not two lines")
	}
}

func TestTicksHaveTheDecimalsThatTellThemApart(t *testing.T) {
	for _, test := range []struct{ low, high float64 }{
		{2.5941, 2.5945}, {0, 20000}, {0.11, 0.46}, {-3e-7, 2e-7}, {1e4, 1e4 + 0.5}, {0, 0.001},
	} {
		seen := make(map[string]bool)
		for _, tick := range (ticks{}).Ticks(test.low, test.high) {
			if tick.IsMinor() {
				continue
			}
			value, err := strconv.ParseFloat(tick.Label, 64)
			if err != nil || !(math.Abs(value-tick.Value) <= 2e-3*(test.high-test.low)) || seen[tick.Label] ||
				value == 0 && tick.Label[0] == '-' {
				t.Errorf("%g to %g: %g is labelled %q", test.low, test.high, tick.Value, tick.Label)
			}
			seen[tick.Label] = true
		}
		if len(seen) < 2 {
			t.Errorf("%g to %g: labels %v", test.low, test.high, seen)
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
				if at := int(tick.Value); downwards && tick.Label != fmt.Sprint(n-1-at) ||
					!downwards && tick.Label != fmt.Sprint(at) {
					t.Errorf("%d cells: %s stands at %d", n, tick.Label, at)
				}
			}
			if got := strings.Join(labels, " "); got != want {
				t.Errorf("%d cells are numbered %s, want %s", n, got, want)
			}
		}
	}
}
