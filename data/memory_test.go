// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"slices"
	"strings"
	"testing"
)

// numbered is a dataset whose pixels and labels encode their row.
func numbered(n int) *Memory {
	s := &Memory{Info: Info{Name: "numbered", Height: 1, Width: 2, Channels: 1, Classes: make([]string, n)}}
	for i := range n {
		s.Pixels = append(s.Pixels, uint8(i), uint8(i))
		s.Labels = append(s.Labels, int32(i))
	}
	return s
}

// rowsOf returns the rows of a part, from the pixels, which must match the labels.
func rowsOf(t *testing.T, s *Memory) []int {
	var rows []int
	for i, label := range s.Labels {
		if !slices.Equal(s.Row(i), []uint8{uint8(label), uint8(label)}) {
			t.Fatalf("label %d with the pixels %v", label, s.Row(i))
		}
		rows = append(rows, int(label))
	}
	return rows
}

func TestFractionHasTheExactCountAndLargerOnesContainSmallerOnes(t *testing.T) {
	s := numbered(101)
	var smaller []int
	for _, c := range []struct {
		f    float64
		want int
	}{{0.001, 1}, {0.2, 20}, {0.4, 40}, {0.5, 51}, {0.6, 61}, {0.9, 91}, {1, 101}} {
		part, err := Fraction(s, c.f, 42)
		if err != nil {
			t.Fatal(err)
		}
		rows := rowsOf(t, part.(*Memory))
		if !slices.IsSorted(rows) || len(rows) != c.want || len(slices.Compact(slices.Clone(rows))) != c.want {
			t.Errorf("fraction %g: rows %v, want %d different ones", c.f, rows, c.want)
		}
		for _, row := range smaller {
			if !slices.Contains(rows, row) {
				t.Errorf("fraction %g lacks %d of a smaller one", c.f, row)
			}
		}
		smaller = rows
	}
	a, _ := Fraction(s, 0.5, 1)
	b, _ := Fraction(s, 0.5, 2)
	if slices.Equal(a.Describe().Labels, b.Describe().Labels) {
		t.Error("two seeds choose the same images")
	}
	if whole, err := Fraction(s, 1, 1); err != nil || whole != Source(s) {
		t.Errorf("all images are a copy, %v", err)
	}
	if _, err := Fraction(s, 0, 1); err == nil {
		t.Error("fraction 0 is accepted")
	}
}

func TestSplitIsAPartition(t *testing.T) {
	train, held, err := RandomSplit(numbered(101), 13, 5)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Sorted(slices.Values(append(rowsOf(t, train.(*Memory)), rowsOf(t, held.(*Memory))...)))
	if train.Len() != 88 || held.Len() != 13 || !slices.Equal(all, rowsOf(t, numbered(101))) {
		t.Errorf("%d and %d images, together %v", train.Len(), held.Len(), all)
	}
	if _, _, err := RandomSplit(numbered(5), 5, 1); err == nil {
		t.Error("holding out everything is accepted")
	}
}

func TestFingerprintSeesPixelsLabelsOrderShapeAndClasses(t *testing.T) {
	base := numbered(11).Fingerprint()
	if again := numbered(11).Fingerprint(); again != base {
		t.Error("the same set has two fingerprints")
	}
	changes := map[string]func(*Memory){
		"a pixel": func(s *Memory) { s.Pixels[5]++ },
		"a label": func(s *Memory) { s.Labels[5]++ },
		"shape":   func(s *Memory) { s.Height, s.Width = 2, 1 },
		"a class": func(s *Memory) { s.Classes[3] = "x" },
		"order":   func(s *Memory) { *s = *s.Rows([]int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10}) },
	}
	for name, change := range changes {
		s := numbered(11)
		change(s)
		if s.Fingerprint() == base {
			t.Errorf("a change of %s is not seen", name)
		}
	}
}

func TestValidateOfADatasetNamesTheMismatch(t *testing.T) {
	if err := numbered(11).Check(t.Context(), true); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Memory){
		"image 3 has label 11":                          func(s *Memory) { s.Labels[3] = 11 },
		"22 bytes of pixels, want 33 for [11, 1, 3, 1]": func(s *Memory) { s.Width = 3 },
		"channels":  func(s *Memory) { s.Channels = 2 },
		"no images": func(s *Memory) { s.Labels, s.Pixels = nil, nil },
	} {
		s := numbered(11)
		change(s)
		if err := s.Check(t.Context(), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}
