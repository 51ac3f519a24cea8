// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/wepe-go/wepe/report"
)

// A record becomes a table: the accuracies of its encodings, and their differences to learned positions by seed.
func ExampleNewTable() {
	rows, err := report.ReadFiles("../docs/runs/real-quarters.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	table, err := report.NewTable(rows.Results, report.Spec{Baseline: "learned"})
	for _, line := range table.Rows {
		if line[0] == "learned+wepe-v" {
			fmt.Println(table.Header[2], line[2], "difference", line[4], "interval", line[5], err)
		}
	}
	// Output: test top-1 % 40.99 difference +4.83 interval +1.95 … +7.70 <nil>
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
