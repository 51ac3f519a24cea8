// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/janpfeifer/must"

	"github.com/wepe-go/wepe/report"
)

// A record becomes a table: the accuracies of its encodings, and their differences to learned positions by seed. By
// hand: the pairs are +1 and +3 points, so the mean is 2 and the interval 2 ± 12.706 × √2/√2, with t(0.975, 1).
func ExampleNewTable() {
	path := filepath.Join(os.TempDir(), "example.jsonl")
	defer os.Remove(path)
	for i, top1 := range []float64{0.40, 0.41, 0.42, 0.45, 0.44, 0.46} {
		job := report.Job{Dataset: "shapes", Fraction: 1, Encoding: []string{"learned", "wepe"}[i%2], Seed: int64(i / 2)}
		metrics := report.Metrics{Top1: report.JSONFloat(top1), Images: 100}
		must.M(report.Append(path, report.Result{Job: job, Test: metrics}))
	}
	rows := must.M1(report.ReadFiles(path))
	table := must.M1(report.NewTable(rows.Results, report.Spec{Baseline: "learned"}))
	fmt.Println(table.Header[5], table.Rows[1][5], "interval", table.Rows[1][6])
	// Output: top-1 − learned +2.00 interval -0.48 … +4.48
}

func ExamplePage() {
	table := report.Table{Header: []string{"n"}, Rows: [][]string{{"7"}}}
	page := report.Page{Title: "A page", Sections: []report.Section{{Title: "A table", Table: table}}}
	var html strings.Builder
	err := page.HTML(&html)
	fmt.Println(strings.Contains(html.String(), `<td class="right">7</td>`), err)
	// Output: true <nil>
}

// Of three cats one is predicted as a dog.
func ExampleNewConfusion() {
	confusion := report.NewConfusion([]string{"cat", "dog"})
	confusion.Counts[0][0], confusion.Counts[0][1] = 2, 1
	confusion.Counts[1][1] = 3
	for _, s := range confusion.Scores() {
		fmt.Printf("%s: precision %.2f, recall %.2f\n", s.Class, s.Precision, s.Recall)
	}
	// Output:
	// cat: precision 1.00, recall 0.67
	// dog: precision 0.75, recall 1.00
}
