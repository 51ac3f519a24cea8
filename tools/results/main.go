// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command results fills the tables of Markdown files. A table stands between two lines
//
//	<!-- KIND NAME OPTIONS -->
//	<!-- end -->
//
// where KIND is
//
//	positions               the encodings, from the code; without NAME
//	table:                  the runs in docs/runs/NAME.jsonl, a line for each group of by= (report.NewTable)
//	figure:                 the rows of wepe analyze; NAME is followed by the figure's name
//	bench:                  a summary of the rows of make bench
//	steps:                  rows of make bench on one device, a line for each peer and encoding
//	curves:, sizes:, dots:  a plot of the runs in docs/runs/NAME.jsonl, drawn into the file that follows NAME
//
// and OPTIONS are, of those that the kind accepts, by=dataset,encoding, baseline=learned and across=size, fields of a
// report.Spec, and a selection: only=wepe,learned, encodings; columns=a,b, numeric columns, in a figure models (an
// underscore stands for a space); rows=REGEXP, rows whose first cells match.
//
//	go run ./tools/results docs/runs README.md docs/results.md
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/analysis"
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

const kinds = `^<!-- (positions|(?:table|figure|bench|steps|curves|sizes|dots):[^\n]*?) *-->\n`

var (
	begin  = regexp.MustCompile(`(?m)` + kinds)
	marked = regexp.MustCompile(`(?ms)` + kinds + `.*?^<!-- end -->$`)
)

// filled returns a Markdown text with all its tables recomputed; leave writes its plots.
func filled(markdown, records string, leave writer) (text string, err error) {
	if begun := len(begin.FindAllString(markdown, -1)); begun != len(marked.FindAllString(markdown, -1)) {
		return "", errors.New("a table has no <!-- end -->")
	}
	text = marked.ReplaceAllStringFunc(markdown, func(block string) string {
		words := begin.FindStringSubmatch(block)
		shown, failed := content(strings.Fields(words[1]), records, leave)
		if failed != nil {
			err = fmt.Errorf("%w (in %q)", failed, words[1])
		}
		return words[0] + "\n" + shown + "\n<!-- end -->"
	})
	return text, err
}

// options are the words of a marker after its kind and name.
type options struct {
	spec          report.Spec
	only, columns []string
	rows          *regexp.Regexp
}

// accepts are the options of each kind.
var accepts = map[string][]string{
	"table:":  {"by", "baseline", "across", "only", "columns", "rows"},
	"figure:": {"columns", "rows"}, "bench:": {"columns", "rows"}, "steps:": {"columns", "rows"},
	"curves:": {"only"}, "sizes:": {"only"}, "dots:": {"only"},
}

func parse(kind string, words []string) (o options, err error) {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if !slices.Contains(accepts[kind], key) {
			return o, fmt.Errorf("%s has no option %q, want %s=", kind, word, strings.Join(accepts[kind], "=, "))
		}
		switch key {
		case "by":
			o.spec.GroupBy = strings.Split(value, ",")
		case "baseline":
			o.spec.Baseline = value
		case "across":
			o.spec.Across = value
		case "only":
			o.only = listed(value)
		case "columns":
			o.columns = listed(value)
		case "rows":
			if o.rows, err = regexp.Compile(strings.ReplaceAll(value, "_", " ")); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// listed returns the names of a list; in them "_" stands for a space, and a comma before it is part of the name.
func listed(value string) []string {
	return strings.Split(strings.NewReplacer(",_", ", ", ",", "\n", "_", " ").Replace(value), "\n")
}

// absent is an error about the first name that is not there.
func absent(option string, names []string, there func(name string) bool) error {
	for _, name := range names {
		if !there(name) {
			return fmt.Errorf("%s= names %q, which is not in the rows", option, name)
		}
	}
	return nil
}

// choose removes the rows of encodings that only= does not name.
func (o options) choose(rows *report.Rows) error {
	hidden := func(encoding string) bool { return o.only != nil && !slices.Contains(o.only, encoding) }
	if b := o.spec.Baseline; b != "" && hidden(b) {
		return fmt.Errorf("only= leaves nothing to pair with: add the baseline %s, or choose lines by rows=", b)
	}
	if err := absent("only", o.only, func(name string) bool {
		return slices.ContainsFunc(rows.Evals, func(e report.Eval) bool { return e.Encoding == name }) ||
			slices.ContainsFunc(rows.Results, func(r report.Result) bool { return r.Encoding == name })
	}); err != nil {
		return err
	}
	rows.Evals = slices.DeleteFunc(rows.Evals, func(e report.Eval) bool { return hidden(e.Encoding) })
	rows.Results = slices.DeleteFunc(rows.Results, func(r report.Result) bool { return hidden(r.Encoding) })
	return nil
}

// content computes what stands between a marker of these words and its end.
func content(words []string, records string, leave writer) (string, error) {
	kind, names := words[0], 1
	if kind == "positions" {
		return positionsTable().Markdown(), nil
	}
	plot, plotted := plots[kind]
	if plotted || kind == "figure:" {
		names = 2
	}
	if len(words) <= names {
		return "", fmt.Errorf("%d names, want %d", len(words)-1, names)
	}
	path := filepath.Join(records, words[1]+".jsonl")
	o, err := parse(kind, words[1+names:])
	if err != nil {
		return "", err
	}
	var table report.Table
	switch kind {
	case "bench:", "steps:":
		measured, err := rows.Read(path)
		if err != nil {
			return "", err
		}
		if table = rows.Summary(measured); kind == "steps:" {
			table = rows.Steps(measured)
		}
	case "figure:":
		if rows, err := analysis.Read(path); err != nil {
			return "", err
		} else if table = analysis.Table(rows, words[2]); len(table.Rows) == 0 {
			return "", fmt.Errorf("no rows of figure %q", words[2])
		}
		table.Notes = nil // about models that are not in the figure
	default:
		rows, err := report.ReadFiles(path)
		if err != nil {
			return "", err
		}
		if err := o.choose(&rows); err != nil {
			return "", err
		}
		if plotted {
			return fmt.Sprintf("![%s](%s)\n", plot.shows, words[2]), leave(words[2], func(w io.Writer) error {
				return plot.draw(w, rows)
			})
		}
		if table, err = report.NewTable(rows.Results, o.spec); err != nil {
			return "", err
		}
		for _, skipped := range rows.Skipped {
			table.Notes = append(table.Notes, strings.TrimPrefix(skipped, records+string(filepath.Separator)))
		}
	}
	err = absent("columns", o.columns, func(name string) bool { return slices.Contains(table.Header, name) })
	return compact(table, o).Markdown(), err
}

// unshown are columns of report.NewTable that documents omit; the rows contain them. Pairs are shown where n varies, or
// where a line with pairs has others than n.
var unshown = []string{"top-5 %", "loss", "pairs", "minutes"}

// showsPairs reports whether the pairs of a table cannot be told from n.
func showsPairs(table report.Table) bool {
	n, pairs := slices.Index(table.Header, "n"), slices.Index(table.Header, "pairs")
	return n >= 0 && pairs >= 0 && slices.ContainsFunc(table.Rows, func(row []string) bool {
		return row[n] != table.Rows[0][n] || row[pairs] != "0" && row[pairs] != row[n]
	})
}

// spread are the columns that stand in parentheses after their mean.
var spread = []string{"range", "95 % interval"}

// compact returns the table for a document: the columns and rows of the options, a range in parentheses after its mean,
// and the two names of a figure's row joined.
func compact(table report.Table, o options) report.Table {
	keep := func(i int) bool {
		if o.columns != nil && i >= table.TextColumns {
			return slices.Contains(o.columns, table.Header[i])
		}
		return !slices.Contains(unshown, table.Header[i]) || table.Header[i] == "pairs" && showsPairs(table)
	}
	shown := report.Table{Notes: table.Notes}
	line := func(cells []string, header bool) (out []string) {
		for i, cell := range cells {
			cell = strings.ReplaceAll(cell, " … ", "…")
			switch {
			case slices.Contains(spread, table.Header[i]) && keep(i-1) && !header:
				if low, high, _ := strings.Cut(cell, "…"); low != high && cell != "–" {
					out[len(out)-1] += " (" + cell + ")"
				}
			case slices.Contains(spread, table.Header[i]) && keep(i-1):
				out[len(out)-1] += " (" + table.Header[i] + ")"
			case i == 1 && table.Header[i] == "" && cell != "":
				out[0] += ", " + cell
			case i == 1 && table.Header[i] == "" || slices.Contains(spread, table.Header[i]) || !keep(i):
			default:
				out = append(out, cell)
				if header && i < table.TextColumns {
					shown.TextColumns++
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
	return shown
}
