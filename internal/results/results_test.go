// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute"
)

func TestTheTablesOfEncodingsAreThoseOfTheCode(t *testing.T) {
	for _, file := range []string{"README.md", "docs/results.md"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		want, err := encodings(string(raw))
		if err != nil {
			t.Fatal(err)
		}
		if want != string(raw) {
			t.Errorf("%s: run make results", file)
		}
	}
}

func TestParametersEqualThePublishedOnes(t *testing.T) {
	backend, err := compute.NewWithConfig("go")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Finalize()
	for _, q := range publications {
		_, cost, err := costOf(backend, q.model, q.position, q.params)
		if err != nil {
			t.Fatal(err)
		}
		if got := (cost.Parameters + q.more) / q.unit * q.unit; got != q.count {
			t.Errorf("%s %v at %s: %d and %d more, %s has %d", q.position, q.params, q.model, cost.Parameters, q.more,
				q.source, q.count)
		}
		if (q.more != 0) != (q.why != "") {
			t.Errorf("%s, %s: %d more because %q", q.position, q.source, q.more, q.why)
		}
	}
}

func TestRegionReplacesWhatStandsBetweenItsMarkers(t *testing.T) {
	const marker = "<!-- positions -->"
	content := func() (string, error) { return "new\n", nil }
	const old = "a\n<!-- positions -->\nold\n<!-- end -->\nb\n<!-- table: x -->\nkept\n<!-- end -->\n"
	got, err := region(old, marker, content)
	want := "a\n<!-- positions -->\n\nnew\n\n<!-- end -->\nb\n<!-- table: x -->\nkept\n<!-- end -->\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if again, err := region(got, marker, content); err != nil || again != got {
		t.Errorf("a second time: %q, %v", again, err)
	}
	for _, bad := range []string{"<!-- positions -->\nold\n", "<!-- positions -->\n<!-- positions -->\n<!-- end -->\n"} {
		if _, err := region(bad, marker, content); err == nil {
			t.Errorf("%q was filled", bad)
		}
	}
}
