// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command results fills the tables of Markdown files. A table stands between two lines
//
//	<!-- WORDS -->
//	<!-- end -->
//
// where WORDS is "positions" or "parameters", for a table of the encodings from the code, or
//
//	table: NAME by=dataset,encoding baseline=learned split=validation
//
// for a table of the runs in NAME.jsonl of the records' directory; the settings after the name are fields of a
// report.Spec and may be left out, as may only=wepe,learned, the encodings that are shown, or
//
//	figure: NAME decay
//
// for the table of a figure from the rows that wepe analyze left in NAME.jsonl, or
//
//	epochs: NAME
//
// for validation top-1 by epoch of the runs in NAME.jsonl, or
//
//	detection: NAME
//
// for that of the detectors whose rows wepe detect train left there, or
//
//	bench: NAME
//
// for the rows that `make bench` left there.
//
//	go run ./tools/results docs/runs README.md docs/results.md docs/encodings.md docs/sphere.md \
//		docs/analyses.md docs/detection.md
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/detect/train"
	"github.com/wepe-go/wepe/report"
	"github.com/wepe-go/wepe/tools/bench/rows"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: results RECORDS-DIRECTORY FILE.md ...")
		os.Exit(2)
	}
	for _, path := range os.Args[2:] {
		if err := fill(path, os.Args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "results: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

// fill rewrites one file.
func fill(path, records string) error {
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := filled(string(before), records)
	if err != nil || after == string(before) {
		return err
	}
	return report.WriteFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, after)
		return err
	})
}

var (
	begin = regexp.MustCompile(
		`(?m)^<!-- (positions|parameters|table:.*?|figure:.*?|detection:.*?|bench:.*?|epochs:.*?) *-->\n`)
	end = regexp.MustCompile(`(?m)^<!-- end -->$`)
)

// filled is a Markdown text with all its tables computed anew.
func filled(markdown, records string) (string, error) {
	var out strings.Builder
	for {
		at := begin.FindStringSubmatchIndex(markdown)
		if at == nil {
			return out.String() + markdown, nil
		}
		words, rest := markdown[at[2]:at[3]], markdown[at[1]:]
		closed, next := end.FindStringIndex(rest), begin.FindStringIndex(rest)
		if closed == nil || next != nil && next[0] < closed[0] {
			return "", fmt.Errorf("%q has no <!-- end -->", words)
		}
		table, err := tableOf(strings.Fields(words), records)
		if err != nil {
			return "", fmt.Errorf("%w (in %q)", err, words)
		}
		out.WriteString(markdown[:at[1]] + "\n" + table.Markdown() + "\n")
		markdown = rest[closed[0]:]
	}
}

// tableOf is the table that the words of a marker ask for.
func tableOf(words []string, records string) (table report.Table, err error) {
	switch {
	case words[0] == "positions":
		return positionsTable()
	case words[0] == "parameters":
		return parametersTable()
	case len(words) == 1:
		return table, fmt.Errorf("a table without a name")
	case words[0] == "bench:":
		measured, err := rows.Read(filepath.Join(records, words[1]+".jsonl"))
		return rows.Table(measured), err
	case words[0] == "figure:" && len(words) == 3:
		rows, err := analysis.Read(filepath.Join(records, words[1]+".jsonl"))
		if table = analysis.Table(rows, words[2]); err == nil && len(table.Rows) == 0 {
			err = fmt.Errorf("no rows of figure %q", words[2])
		}
		return table, err
	}
	var spec report.Spec
	var only []string
	for _, word := range words[2:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "by":
			spec.GroupBy = strings.Split(value, ",")
		case "baseline":
			spec.Baseline = value
		case "split":
			spec.Split = value
		case "across":
			spec.Across = value
		case "only":
			only = strings.Split(value, ",")
		default:
			return table, fmt.Errorf("unknown setting %q, want by=, baseline=, split=, across= or only=", word)
		}
	}
	rows, err := report.ReadFiles(filepath.Join(records, words[1]+".jsonl"))
	if err != nil {
		return table, err
	}
	if only != nil {
		rows.Results = slices.DeleteFunc(rows.Results, func(r report.Result) bool {
			return !slices.Contains(only, r.Encoding)
		})
	}
	switch {
	case words[0] == "epochs:":
		table = report.Epochs(rows)
	case words[0] == "detection:":
		table = train.Table(rows.Results)
	default:
		table, err = report.Tabulate(rows.Results, spec)
	}
	for _, skipped := range rows.Skipped {
		table.Notes = append(table.Notes, strings.TrimPrefix(skipped, records+string(filepath.Separator)))
	}
	return table, err
}
