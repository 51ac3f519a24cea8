// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
)

// Across makes one line per encoding and one column per value of another column of Tabulate, both in the order in which
// they first appear: the mean test top-1 in percent over the seeds, n of them in every cell. A line whose cells are of
// unequal many seeds is named in a note with the smallest number, and is counted by the largest.
func Across(runs []Result, column string) (Table, error) {
	value := columns[column]
	if value == nil {
		return Table{}, fmt.Errorf("report: no column %q to go across", column)
	}
	runs, notes := counted(runs)
	table := Table{Header: []string{"encoding", "n"}, Numeric: []bool{false, true}, Notes: notes}
	for _, group := range groups(runs, []string{column}) {
		table.Header, table.Numeric = append(table.Header, value(group[0])), append(table.Numeric, true)
	}
	for _, line := range groups(runs, []string{"encoding"}) {
		cells := make([][]float64, len(table.Header)-2)
		for _, r := range line {
			i := slices.Index(table.Header[2:], value(r))
			cells[i] = append(cells[i], 100*float64(r.Test.Top1))
		}
		fewest, most := len(line), 0
		var texts []string
		for _, c := range cells {
			fewest, most = min(fewest, len(c)), max(most, len(c))
			texts = append(texts, summarise(c).format("%.1f"))
		}
		if fewest < most {
			table.Notes = append(table.Notes, fmt.Sprintf("%s has %d to %d runs a cell", line[0].Encoding, fewest, most))
		}
		table.Rows = append(table.Rows, append([]string{line[0].Encoding, strconv.Itoa(most)}, texts...))
	}
	return table, nil
}
