// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"math"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// numbered is a dataset whose pixels and labels encode their row.
func numbered(n int) *InMemory {
	s := &InMemory{Info: Info{Name: "numbered", Height: 1, Width: 2, Channels: 1, Classes: make([]string, n)}}
	for i := range n {
		s.Pixels = append(s.Pixels, uint8(i), uint8(i))
		s.Labels = append(s.Labels, int32(i))
	}
	return s
}

// rowsOf returns the rows of a part, from the pixels, which must match the labels.
func rowsOf(t *testing.T, source Dataset) []int {
	t.Helper()
	s := source.(*InMemory)
	var rows []int
	for i, label := range s.Labels {
		if !slices.Equal(s.Row(i), []uint8{uint8(label), uint8(label)}) {
			t.Fatalf("label %d with the pixels %v", label, s.Row(i))
		}
		rows = append(rows, int(label))
	}
	return rows
}

func TestFraction_LargerOnesContainSmallerOnes(t *testing.T) {
	s := numbered(101)
	var smaller []int
	for _, c := range []struct {
		f    float64
		want int
	}{{0.001, 1}, {0.2, 20}, {0.4, 40}, {0.5, 51}, {0.6, 61}, {0.9, 91}, {1, 101}} {
		rows := rowsOf(t, gomlxtest.Must(Fraction(s, c.f, 42))(t))
		if !slices.IsSorted(rows) || len(rows) != c.want || len(slices.Compact(slices.Clone(rows))) != c.want ||
			slices.ContainsFunc(smaller, func(row int) bool { return !slices.Contains(rows, row) }) {
			t.Errorf("fraction %g: rows %v, want %d different ones with %v among them", c.f, rows, c.want, smaller)
		}
		smaller = rows
	}
	if a := gomlxtest.Must(Fraction(s, 0.5, 1))(t); slices.Equal(rowsOf(t, a), rowsOf(t, gomlxtest.Must(Fraction(s, 0.5,
		2))(t))) {
		t.Error("two seeds choose the same images")
	}
	for _, f := range []float64{0, 1.01, math.NaN()} {
		if _, err := Fraction(s, f, 1); err == nil {
			t.Errorf("fraction %g is accepted", f)
		}
	}
}

func TestRandomSplit_IsAPartition(t *testing.T) {
	s := numbered(101)
	train, held, err := RandomSplit(s, 13, 5)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Sorted(slices.Values(append(rowsOf(t, train), rowsOf(t, held)...)))
	if train.Len() != 88 || held.Len() != 13 || !slices.Equal(all, span(0, 101)) {
		t.Errorf("%d and %d images, together %v", train.Len(), held.Len(), all)
	}
	if train, held, err := RandomSplit(s, 0, 5); train != Dataset(s) || held != nil || err != nil {
		t.Errorf("no images are held out: %v, %v, %v", train, held, err)
	}
	for _, n := range []int{-1, 101} {
		if _, _, err := RandomSplit(s, n, 1); err == nil {
			t.Errorf("%d of 101 images are held out", n)
		}
	}
}

// Each change is seen by the fingerprint; those that do not fit the shape are refused.
func TestMemory_FingerprintAndCheck(t *testing.T) {
	whole := numbered(11)
	if err := Check(t.Context(), whole, true); err != nil || Fingerprint(numbered(11)) != Fingerprint(whole) {
		t.Errorf("the same set has two fingerprints, or is refused: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*InMemory)
		valid  bool
	}{
		"a pixel": {func(s *InMemory) { s.Pixels[5]++ }, true}, "a label": {func(s *InMemory) { s.Labels[5]++ }, true},
		"a class":  {func(s *InMemory) { s.Classes[3] = "x" }, true},
		"shape":    {func(s *InMemory) { s.Height, s.Width = 2, 1 }, true},
		"order":    {func(s *InMemory) { *s = *s.Subset([]int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10}) }, true},
		"no class": {func(s *InMemory) { s.Labels[3] = 11 }, false}, "width": {func(s *InMemory) { s.Width = 3 }, false},
		"below 0": {func(s *InMemory) { s.Labels[3] = -1 }, false}, "channels": {func(s *InMemory) { s.Channels = 2 }, false},
		"no images": {func(s *InMemory) { s.Labels, s.Pixels = nil, nil }, false},
		"numbers":   {func(s *InMemory) { s.Float, s.Classes = make([]float32, 21), nil }, false},
	} {
		s := numbered(11)
		c.change(s)
		if err := Check(t.Context(), s, false); Fingerprint(s) == Fingerprint(whole) || (err == nil) != c.valid {
			t.Errorf("%s: %v, or not seen", name, err)
		}
	}
}
