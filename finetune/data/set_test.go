// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"slices"
	"strings"
	"testing"
)

// numbered is a set whose every pixel and label tell their row.
func numbered(n int) *Set {
	s := &Set{Name: "numbered", Height: 1, Width: 2, Channels: 1, Classes: make([]string, n)}
	for i := range n {
		s.Pixels = append(s.Pixels, uint8(i), uint8(i))
		s.Labels = append(s.Labels, int32(i))
	}
	return s
}

func TestSubsetKeepsPixelsWithTheirLabels(t *testing.T) {
	s := numbered(11).Subset([]int{7, 2, 7})
	if !slices.Equal(s.Labels, []int32{7, 2, 7}) || !slices.Equal(s.Pixels, []uint8{7, 7, 2, 2, 7, 7}) {
		t.Errorf("labels %v, pixels %v", s.Labels, s.Pixels)
	}
}

func TestFractionHasTheExactCountAndLargerOnesContainSmallerOnes(t *testing.T) {
	s := numbered(101)
	var smaller []int32
	for f, want := range map[float64]int{0.001: 1, 0.2: 20, 0.5: 51, 0.6: 61, 1: 101} {
		part, err := s.Fraction(f, 42)
		if err != nil {
			t.Fatal(err)
		}
		different := len(slices.Compact(slices.Clone(part.Labels)))
		if part.Len() != want || !slices.IsSorted(part.Labels) || different != want {
			t.Errorf("fraction %g: labels %v, want %d different ones", f, part.Labels, want)
		}
	}
	for _, f := range []float64{0.2, 0.4, 0.6, 0.9} {
		part, _ := s.Fraction(f, 42)
		for _, label := range smaller {
			if !slices.Contains(part.Labels, label) {
				t.Errorf("fraction %g lacks %d of a smaller one", f, label)
			}
		}
		smaller = part.Labels
	}
	a, _ := s.Fraction(0.5, 1)
	b, _ := s.Fraction(0.5, 2)
	if slices.Equal(a.Labels, b.Labels) {
		t.Error("two seeds choose the same images")
	}
	if _, err := s.Fraction(0, 1); err == nil {
		t.Error("fraction 0 is accepted")
	}
}

func TestSplitIsAPartition(t *testing.T) {
	train, held, err := numbered(101).Split(13, 5)
	if err != nil {
		t.Fatal(err)
	}
	if train.Len() != 88 || held.Len() != 13 {
		t.Fatalf("%d and %d images", train.Len(), held.Len())
	}
	all := slices.Sorted(slices.Values(append(slices.Clone(train.Labels), held.Labels...)))
	if !slices.Equal(all, numbered(101).Labels) {
		t.Errorf("the parts together are %v", all)
	}
	if _, _, err := numbered(5).Split(5, 1); err == nil {
		t.Error("holding out everything is accepted")
	}
}

func TestFingerprintSeesPixelsLabelsOrderShapeAndClasses(t *testing.T) {
	base := numbered(11).Fingerprint()
	if again := numbered(11).Fingerprint(); again != base {
		t.Error("the same set has two fingerprints")
	}
	changes := map[string]func(*Set){
		"a pixel": func(s *Set) { s.Pixels[5]++ },
		"a label": func(s *Set) { s.Labels[5]++ },
		"shape":   func(s *Set) { s.Height, s.Width = 2, 1 },
		"a class": func(s *Set) { s.Classes[3] = "x" },
		"order":   func(s *Set) { *s = *s.Subset([]int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10}) },
	}
	for name, change := range changes {
		s := numbered(11)
		change(s)
		if s.Fingerprint() == base {
			t.Errorf("a change of %s is not seen", name)
		}
	}
}

func TestValidateOfASetSaysWhatDoesNotFit(t *testing.T) {
	if err := numbered(11).Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Set){
		"image 3 has label 11": func(s *Set) { s.Labels[3] = 11 },
		"22 bytes of pixels":   func(s *Set) { s.Width = 3 },
		"channels":             func(s *Set) { s.Channels = 2 },
		"empty":                func(s *Set) { s.Labels, s.Pixels = nil, nil },
	} {
		s := numbered(11)
		change(s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}
