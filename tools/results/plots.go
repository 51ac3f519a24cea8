// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/report"
)

// writer writes the output of draw to a file.
type writer func(path string, draw func(io.Writer) error) error

// plot draws the rows of a marker into a file, words[2], and returns the line that shows it: "curves:" is loss and
// accuracy over the epochs, "sizes:" the test accuracy over the side of square images, "dots:" that of each seed.
func plot(words []string, records string, leave writer) (string, error) {
	if len(words) < 3 {
		return "", fmt.Errorf("%q names no rows or no file", words)
	}
	rows, err := report.ReadFiles(filepath.Join(records, words[1]+".jsonl"))
	if err != nil {
		return "", err
	}
	o, err := parse(words[3:])
	if err != nil {
		return "", err
	}
	shown := func(encoding string) bool { return o.only == nil || slices.Contains(o.only, encoding) }
	rows.Evals = slices.DeleteFunc(rows.Evals, func(e report.Eval) bool { return !shown(e.Encoding) })
	rows.Results = slices.DeleteFunc(rows.Results, func(r report.Result) bool { return !shown(r.Encoding) })
	alt := "loss and accuracy after each epoch"
	draw := func(w io.Writer) error { return report.PlotCurves(w, "", rows.Evals) }
	switch words[0] {
	case "sizes:":
		alt = "accuracy of the same weights at other sizes"
		draw = func(w io.Writer) error { return report.PlotSizes(w, rows.Results) }
	case "dots:":
		alt = "test accuracy of each encoding and seed"
		draw = func(w io.Writer) error { return dots(w, rows.Results) }
	}
	return fmt.Sprintf("![%s](%s)\n", alt, strings.TrimSpace(words[2])), leave(words[2], draw)
}

// dots draws the test accuracy of each seed, the best encoding first.
func dots(w io.Writer, results []report.Result) error {
	of, mean := map[string][]float64{}, map[string]float64{}
	for _, r := range results {
		of[r.Encoding] = append(of[r.Encoding], 100*float64(r.Test.Top1))
		mean[r.Encoding] = stat.Mean(of[r.Encoding], nil)
	}
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Compare(mean[b], mean[a]) })
	var values [][]float64
	for _, name := range names {
		values = append(values, of[name])
	}
	return figure.Dots(w, "each seed (dot) and mean (bar)", "test top-1 accuracy (%)", names, values)
}
