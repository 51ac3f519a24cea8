// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command results fills the tables of Markdown files. A table stands between two lines
//
//	<!-- KIND NAME OPTIONS -->
//	<!-- end -->
//
// where KIND is
//
//	positions               the encodings, from the code; without NAME
//	table:                  the runs in docs/runs/NAME.jsonl
//	detection:              the detectors evaluated by wepe detect train
//	figure:                 the rows of wepe analyze; NAME is followed by the figure's name
//	bench:                  a summary of the rows of make bench
//	steps:                  rows of make bench on one device, a line for each peer and encoding
//	curves:, sizes:, dots:  a plot of the runs in docs/runs/NAME.jsonl, drawn into the file that follows NAME
//
// and OPTIONS are by=dataset,encoding and baseline=learned, fields of a report.Spec; across=size, a column for each size;
// and, for every kind with a NAME, a selection: only=wepe,learned, encodings; columns=a,b, numeric columns (an underscore
// stands for a space); rows=REGEXP, rows whose first cells match.
//
//	go run ./tools/results docs/runs README.md docs/results.md
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
	"github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/internal/disk"
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
	after, err := filled(string(before), records, func(name string, draw func(io.Writer) error) error {
		return disk.Write(filepath.Join(filepath.Dir(path), name), draw)
	})
	if err != nil || after == string(before) {
		return err
	}
	return disk.Write(path, func(w io.Writer) error {
		_, err := io.WriteString(w, after)
		return err
	})
}

var (
	begin = regexp.MustCompile(
		`(?m)^<!-- (positions|(?:table|figure|detection|bench|steps|curves|sizes|dots):.*?) *-->\n`)
	end = regexp.MustCompile(`(?m)^<!-- end -->$`)
)

var plots = []string{"curves:", "sizes:", "dots:"}

// filled returns a Markdown text with all its tables recomputed; leave writes its plots.
func filled(markdown, records string, leave writer) (string, error) {
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
		var content string
		var err error
		if fields := strings.Fields(words); slices.Contains(plots, fields[0]) {
			content, err = plot(fields, records, leave)
		} else {
			var table report.Table
			table, err = tableOf(fields, records)
			content = table.Markdown()
		}
		if err != nil {
			return "", fmt.Errorf("%w (in %q)", err, words)
		}
		out.WriteString(markdown[:at[1]] + "\n" + content + "\n")
		markdown = rest[closed[0]:]
	}
}

// options are the words of a marker after its kind and name.
type options struct {
	spec          report.Spec
	only, columns []string
	rows          *regexp.Regexp
}

func parse(words []string) (o options, err error) {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		list := strings.Split(value, ",")
		switch key {
		case "by":
			o.spec.GroupBy = list
		case "baseline":
			o.spec.Baseline = value
		case "across":
			o.spec.Across = value
		case "only":
			o.only = list
		case "columns":
			o.columns = strings.Split(strings.ReplaceAll(value, "_", " "), ",")
		case "rows":
			if o.rows, err = regexp.Compile(strings.ReplaceAll(value, "_", " ")); err != nil {
				return o, err
			}
		default:
			return o, fmt.Errorf("unknown option %q, want by=, baseline=, across=, only=, columns= or rows=", word)
		}
	}
	return o, nil
}

// tableOf returns the table for the words of a marker.
func tableOf(words []string, records string) (table report.Table, err error) {
	switch {
	case words[0] == "positions":
		return positionsTable()
	case len(words) == 1:
		return table, fmt.Errorf("a table without a name")
	}
	path, after := filepath.Join(records, words[1]+".jsonl"), words[2:]
	figure := ""
	if words[0] == "figure:" {
		if len(after) == 0 {
			return table, fmt.Errorf("a figure without a name")
		}
		figure, after = after[0], after[1:]
	}
	o, err := parse(after)
	if err != nil {
		return table, err
	}
	switch words[0] {
	case "bench:":
		measured, err := rows.Read(path)
		return compact(rows.Summary(measured), o), err
	case "steps:":
		measured, err := rows.Read(path)
		return compact(rows.Steps(measured), o), err
	case "figure:":
		rows, err := analysis.Read(path)
		if table = analysis.Table(rows, figure); err == nil && len(table.Rows) == 0 {
			err = fmt.Errorf("no rows of figure %q", figure)
		}
		table.Notes = nil // about models that are not in the figure
		return compact(table, o), err
	}
	rows, err := report.ReadFiles(path)
	if err != nil {
		return table, err
	}
	if o.only != nil {
		rows.Results = slices.DeleteFunc(rows.Results, func(r report.Result) bool {
			return !slices.Contains(o.only, r.Encoding)
		})
	}
	if words[0] == "detection:" {
		table = detect.Table(rows.Results)
	} else {
		table, err = report.NewTable(rows.Results, o.spec)
	}
	for _, skipped := range rows.Skipped {
		table.Notes = append(table.Notes, strings.TrimPrefix(skipped, records+string(filepath.Separator)))
	}
	return compact(table, o), err
}

// unshown are columns of report.NewTable that documents omit; the rows contain them. Pairs are shown where n varies.
var unshown = []string{"top-5 %", "loss", "pairs", "minutes"}

// varies reports whether a column has several values.
func varies(table report.Table, header string) bool {
	at := slices.Index(table.Header, header)
	return at >= 0 && slices.ContainsFunc(table.Rows, func(row []string) bool { return row[at] != table.Rows[0][at] })
}

// spread are the columns that stand in parentheses after their mean.
var spread = []string{"range", "95 % interval"}

// compact returns the table for a document: the columns and rows of the options, a range in parentheses after its mean,
// and the two names of a figure's row joined.
func compact(table report.Table, o options) report.Table {
	keep := func(i int) bool {
		if o.columns != nil && table.Numeric[i] {
			return slices.Contains(o.columns, table.Header[i])
		}
		return !slices.Contains(unshown, table.Header[i]) || table.Header[i] == "pairs" && varies(table, "n")
	}
	shown := report.Table{Notes: table.Notes}
	line := func(cells []string, header bool) (out []string) {
		for i, cell := range cells {
			cell = strings.ReplaceAll(cell, " … ", "…")
			switch {
			case slices.Contains(spread, table.Header[i]) && keep(i-1) && !header:
				if low, high, _ := strings.Cut(cell, "…"); low != high {
					out[len(out)-1] += " (" + cell + ")"
				}
			case slices.Contains(spread, table.Header[i]) && keep(i-1):
				out[len(out)-1] += " (" + table.Header[i] + ")"
			case i == 1 && table.Header[i] == "" && cell != "":
				out[0] += ", " + cell
			case i == 1 && table.Header[i] == "" || slices.Contains(spread, table.Header[i]) || !keep(i):
			default:
				out = append(out, cell)
				if header {
					shown.Numeric = append(shown.Numeric, table.Numeric[i])
				}
			}
		}
		return out
	}
	shown.Header = line(table.Header, true)
	for _, cells := range table.Rows {
		if o.rows == nil || o.rows.MatchString(strings.Join(cells[:2], ", ")) {
			shown.Rows = append(shown.Rows, line(cells, false))
		}
	}
	for i := range shown.Rows {
		for j := range shown.Rows[i] {
			shown.Rows[i][j] = strings.TrimSuffix(shown.Rows[i][j], " (–)")
		}
	}
	return shown
}
