// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A number that was changed by hand, or by a change of the code without the documents, shows here.
func TestEveryTableOfTheDocumentsIsWhatRowsAndCodeSay(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, file := range []string{"README.md", "docs/results.md", "docs/encodings.md", "docs/sphere.md"} {
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		want, err := filled(string(raw), filepath.Join(root, "docs", "runs"))
		if err != nil {
			t.Fatal(err)
		}
		if want != string(raw) {
			t.Errorf("%s: run make results", file)
		}
	}
}

// Every table of results stands where the test above looks at it, but for those of measured times, whose command says
// how to measure them again.
func TestNoTableOfAccuraciesStandsOutsideTheMarkers(t *testing.T) {
	for _, file := range []string{"README.md", "docs/results.md", "docs/encodings.md", "docs/sphere.md"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		inside := false
		for number, line := range strings.Split(string(raw), "\n") {
			switch {
			case strings.HasPrefix(line, "<!-- end"):
				inside = false
			case strings.HasPrefix(line, "<!-- "):
				inside = true
			case strings.HasPrefix(line, "|") && strings.Contains(line, "top-1") && !inside:
				t.Errorf("%s:%d: a table of accuracies that no row stands behind", file, number+1)
			}
		}
	}
}

func TestParametersEqualThePublishedOnes(t *testing.T) {
	for _, q := range publications {
		count, err := parameters(q.model, q.position, q.params)
		if err != nil {
			t.Fatal(err)
		}
		if got := (count + q.more) / q.unit * q.unit; got != q.count {
			t.Errorf("%s %v at %s: %d and %d more, %s has %d", q.position, q.params, q.model, count, q.more,
				q.source, q.count)
		}
		if (q.more != 0) != (q.why != "") {
			t.Errorf("%s, %s: %d more because %q", q.position, q.source, q.more, q.why)
		}
	}
}
