// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/wepe-go/wepe/report"
)

// Two encodings with two paired seeds.
func ExampleNewTable() {
	var runs []report.Result
	for seed, top1 := range []report.JSONFloat{0.50, 0.54} {
		for name, gain := range map[string]report.JSONFloat{"learned": 0, "wepe-sphere": 0.02} {
			runs = append(runs, report.Result{
				Job:  report.Job{Recipe: "shapes", Dataset: "shapes", Fraction: 1, Encoding: name, Seed: int64(seed)},
				Test: report.Metrics{Top1: top1 + gain, Images: 100},
			})
		}
	}
	table, err := report.NewTable(runs, report.Spec{Baseline: "learned"})
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range table.Rows {
		if line[0] == "wepe-sphere" {
			fmt.Println(table.Header[2], line[2], "difference", line[5], "interval", line[6])
		}
	}
	// Output: test top-1 % 54.00 difference +2.00 interval +2.00 … +2.00
}

func ExamplePage() {
	var table report.Table
	table.Header, table.Numeric, table.Rows = []string{"n"}, []bool{true}, [][]string{{"7"}}
	page := report.Page{Title: "A page", Sections: []report.Section{{Title: "A table", Table: table}}}
	var html strings.Builder
	err := page.HTML(&html)
	fmt.Println(strings.Contains(html.String(), `<td class="right">7</td>`), err)
	// Output: true <nil>
}

// The record of two runs becomes a table.
func ExampleReadFiles() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rows.jsonl")
	for seed, top1 := range []report.JSONFloat{0.50, 0.54} {
		job := report.Job{Recipe: "shapes", Dataset: "shapes", Fraction: 1, Encoding: "wepe", Seed: int64(seed)}
		if err := report.Append(path, report.Result{Job: job, Test: report.Metrics{Top1: top1, Images: 100}}); err != nil {
			log.Fatal(err)
		}
	}
	rows, err := report.ReadFiles(path)
	if err != nil {
		log.Fatal(err)
	}
	table, err := report.NewTable(rows.Results, report.Spec{})
	fmt.Println(table.Rows[0][:4], err)
	// Output: [wepe 2 52.00 50.00 … 54.00] <nil>
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
