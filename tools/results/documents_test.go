// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/report"
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
	percentage       = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?) (?:%|points?\b)`)
	number           = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?`)
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

// constants are the percentages and points in the prose of each page that are not measurements of this project: chance,
// settings and the paper's.
var constants = map[string][]string{
	"docs/results.md":     {"6.25 %", "0.9 points"}, // chance; TestRepeatedRunsDifferAsStated
	"docs/training.md":    {"7.3 points"},           // 7.27 of rows gate-cifar100-classes, rounded
	"docs/analysis.md":    {"17 %"},                 // accuracies of the models of rows analyses-cifar100
	"docs/detection.md":   {"38 %"},                 // accuracies of the models of rows scenes-masks
	"docs/performance.md": {"55 %"},                 // peaks in rows bench
}

// A percentage in prose is, to the digits that it has, a number of a computed table of its page or of docs/results.md.
func TestPercentagesInProseStandInTables(t *testing.T) {
	texts := pages(t)
	checked := 0
	for _, path := range []string{"README.md", "docs/sphere.md", "docs/results.md", "docs/training.md", "docs/analysis.md",
		"docs/detection.md", "docs/encodings.md", "docs/performance.md", "docs/evidence/tables.md"} {
		known := append(computed(t, texts[path]), computed(t, texts["docs/results.md"])...)
		prose := regexp.MustCompile("(?ms)^```.*?^```$|^\\|.*?$").ReplaceAllString(texts[path], "")
		for _, found := range percentage.FindAllStringSubmatch(prose, -1) {
			if slices.Contains(constants[path], found[0]) {
				continue
			}
			checked++
			if !isKnown(found[1], known) {
				t.Errorf("%s: %q is in no computed table of the page", path, found[0])
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d percentages checked, want at least 10", checked)
	}
}

// computed are the numbers of a page's tables between markers.
func computed(t *testing.T, text string) (known []float64) {
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "<!-- ") {
			inside = begin.MatchString(line)
		}
		if inside && strings.HasPrefix(line, "|") {
			for _, n := range number.FindAllString(line, -1) {
				known = append(known, gomlxtest.Must(strconv.ParseFloat(n, 64))(t))
			}
		}
	}
	return known
}

// isKnown reports whether a printed number is one of the known ones, rounded.
func isKnown(printed string, known []float64) bool {
	value, err := strconv.ParseFloat(printed, 64)
	if err != nil {
		return false
	}
	_, decimals, _ := strings.Cut(printed, ".")
	scale := math.Pow10(len(decimals))
	for _, k := range known {
		if math.Abs(math.Round(k*scale)-value*scale) < 1e-6 {
			return true
		}
	}
	return false
}

// The summary of docs/results.md states how much the runs of one file differ from those of the other.
func TestRepeatedRunsDifferAsStated(t *testing.T) {
	read := func(name string) map[report.Job]float64 {
		rows := gomlxtest.Must(report.ReadFiles(filepath.Join(root, "docs", "runs", name)))(t)
		top1 := map[report.Job]float64{}
		for _, r := range rows.Results {
			top1[r.Job] = 100 * float64(r.Test.Top1)
		}
		return top1
	}
	before, after := read("shapes-location-onnx.jsonl"), read("shapes-location.jsonl")
	mean, most := 0.0, 0.0
	for job, accuracy := range before {
		change := math.Abs(after[job] - accuracy)
		mean, most = mean+change/float64(len(before)), max(most, change)
	}
	stated := strings.Join(strings.Fields(pages(t)["docs/results.md"]), " ")
	want := fmt.Sprintf("%d runs of the location task were repeated with another backend and commit; accuracy changed by "+
		"%.1f points on average and by %.1f at most.", len(before), mean, most)
	if !strings.Contains(stated, want) {
		t.Errorf("docs/results.md lacks: %s", want)
	}
}
