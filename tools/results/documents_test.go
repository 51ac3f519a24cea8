// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

const root = "../.."

func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/evidence/*.md"} {
		paths := gomlxtest.Must(filepath.Glob(filepath.Join(root, pattern)))(t)
		for _, path := range paths {
			raw := gomlxtest.Must(os.ReadFile(path))(t)
			texts[strings.TrimPrefix(filepath.ToSlash(path), root+"/")] = string(raw)
		}
	}
	return texts
}

var (
	// measured are headers of columns whose values must come from rows.
	measured = regexp.MustCompile(
		`top-1|top-5|\bAP\b|\bms\b|\bs\b|loss|MiB|MB\b|images/s|requests/s|ratio\b|kNN|step time`,
	)
	// publishedColumns are headers of published figures, predicted ones of computed values.
	publishedColumns = regexp.MustCompile(`published|paper|expected|hours per`)
)

// This detects a number that was changed by hand, a code change without the documents, and a table of measurements
// outside the markers.
func TestEveryTableOfTheDocumentsIsComputed(t *testing.T) {
	for path, text := range pages(t) {
		want, err := filled(text, filepath.Join(root, "docs", "runs"), drawn)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if want != text {
			t.Errorf("%s: run make results", path)
		}
		inside, before := false, ""
		for i, line := range strings.Split(want, "\n") {
			if strings.HasPrefix(line, "<!-- ") {
				inside = begin.MatchString(line + "\n")
			}
			header := strings.HasPrefix(line, "|") && !strings.HasPrefix(before, "|")
			if header && !inside && measured.MatchString(line) && !publishedColumns.MatchString(line) {
				t.Errorf("%s:%d: a table of measurements without rows: %s", path, i+1, line)
			}
			before = line
		}
	}
}
