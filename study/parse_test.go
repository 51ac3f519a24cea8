// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"reflect"
	"strings"
	"testing"
)

func TestListsAreOfDifferentThingsAndAtLeastOne(t *testing.T) {
	positions := func(list string) (any, error) { return ParsePositions(list) }
	sizes := func(list string) (any, error) { return ParseSizes(list) }
	fractions := func(list string) (any, error) { return ParseFractions(list) }
	for _, c := range []struct {
		parse func(string) (any, error)
		list  string
		want  any // or what the error says
	}{
		{positions, "wepe,,none", []string{"wepe", "none"}},
		{positions, "wepe,rope", `"rope"`},
		{positions, "wepe,none,wepe", "wepe is there twice"},
		{positions, ",", "names no encoding: want some of none,learned"},
		{sizes, "24x32,7x5", [][2]int{{24, 32}, {7, 5}}},
		{sizes, "24", `"24" is no size`},
		{sizes, "24x32x1", "HEIGHTxWIDTH"},
		{sizes, "24x032", `"24x032"`},
		{sizes, "0x8", `"0x8"`},
		{sizes, "-8x8", `"-8x8"`},
		{sizes, "8x8,8x8", "8x8 is there twice"},
		{sizes, "", "names no size"},
		{fractions, "0.25,1", []float64{0.25, 1}},
		{fractions, "1.5", "<= 1"},
		{fractions, "0", "0 < fraction"},
		{fractions, "NaN", `"NaN"`},
		{fractions, "0.5,5e-1", "5e-1 is there twice"},
		{fractions, "", "names no fraction"},
	} {
		got, err := c.parse(c.list)
		if says, refused := c.want.(string); refused {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: %v, %v, want an error with %q", c.list, got, err, says)
			}
		} else if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, %v, want %v", c.list, got, err, c.want)
		}
	}
}
