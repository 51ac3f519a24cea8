// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"strings"
	"testing"
)

func TestSizesAreHeightAndWidth(t *testing.T) {
	for text, want := range map[string][2]int{"24x32": {24, 32}, "1x7": {1, 7}} {
		if size, err := ParseSize(text); err != nil || size != want {
			t.Errorf("%s: %v, %v", text, size, err)
		}
	}
	for _, wrong := range []string{"24", "24x32x1", "24x032", "0x8", "-8x8", "24x32 ", ""} {
		if size, err := ParseSize(wrong); err == nil || !strings.Contains(err.Error(), "HEIGHTxWIDTH") {
			t.Errorf("%q: %v, %v", wrong, size, err)
		}
	}
}

func TestValidateNamesWhatIsTwiceOrOutOfRange(t *testing.T) {
	valid := func() Study { s := planned(t); s.Sweep = ""; return *s }
	for want, change := range map[string]func(*Study){
		"variant wepe is there twice":   func(s *Study) { s.Variants = Each("wepe", "none", "wepe") },
		"size [8 8] is there twice":     func(s *Study) { s.Sizes = [][2]int{{8, 8}, {8, 8}} },
		"fraction 0.5 is there twice":   func(s *Study) { s.Fractions = []float64{0.5, 5e-1} },
		"fraction 1.5: want 0 <":        func(s *Study) { s.Fractions = []float64{1.5} },
		"fraction 0: want 0 <":          func(s *Study) { s.Fractions = []float64{0} },
		"0 variants":                    func(s *Study) { s.Variants = nil },
		"0 seeds":                       func(s *Study) { s.Seeds = 0 },
		`unknown position encoding "no`: func(s *Study) { s.Variants = Each("nowhere") },
		"stretch":                       func(s *Study) { s.Aspects = []string{"stretch"} },
	} {
		s := valid()
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
