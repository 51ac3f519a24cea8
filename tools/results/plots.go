// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wepe-go/wepe/report"
)

// writer writes the output of draw to a file.
type writer func(path string, draw func(io.Writer) error) error

// plot draws the rows of a marker into a file, words[2], and returns the line that shows it: "curves:" is loss and
// accuracy over the steps, "sizes:" the test accuracy over the side of square images.
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
	draw := func(w io.Writer) error { return report.Curves(w, "", rows.Evals) }
	if words[0] == "sizes:" {
		alt = "accuracy of the same weights at other sizes"
		draw = func(w io.Writer) error { return report.Sizes(w, rows.Results) }
	}
	return fmt.Sprintf("![%s](%s)\n", alt, strings.TrimSpace(words[2])), leave(words[2], draw)
}
