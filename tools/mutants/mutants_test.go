// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const code = `package sample

import "math"

const unchanged = 7

var table = []int{2}

func Greater(a, b int) bool { return a > b }

func Next(x int, ok bool) int {
	if ok {
		x++
	}
	return x
}

func Root(x float64) float64 { return math.Sqrt(x) }

func First() int { return table[unchanged-unchanged] }
`

const tests = `package sample

import "testing"

func TestNext(t *testing.T) {
	if Next(3, false) != 3 || Next(3, true) != 4 {
		t.Fail()
	}
}

func TestGreater(t *testing.T) {
	if Greater(1, 2) || !Greater(2, 1) {
		t.Fail()
	}
}
`

// The verdicts follow from the code and the tests above by reading. A variable of a package is reached by every test.
func TestVerdicts(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.26\n", "a.go": code, "a_test.go": tests} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	missed, err := measure(&out, ".", 1, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`(?m)^(\w+) +a.go:(\d+: .*?)  `).FindAllStringSubmatch(out.String(), -1)
	want := []string{
		"caught 12: ok never holds", "caught 13: removed x++", "survived 7: 2 → 3", "survived 9: > → >=",
		"unreached 18: math.Sqrt(…) → x",
	}
	var lines []string
	for _, g := range got {
		lines = append(lines, g[1]+" "+g[2])
	}
	slices.Sort(lines)
	if missed != 3 || !slices.Equal(lines, want) {
		t.Errorf("%d missed:\n%s", missed, out.String())
	}
}
