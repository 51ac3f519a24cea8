// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/wepe-go/wepe/internal/numeric"
)

// Epochs makes one line per encoding and one column per epoch: the mean validation top-1 in percent over the seeds that
// were evaluated there, and last the mean test top-1 of finished runs. Repeated evaluations of a resumed run count
// once, with the later row. Runs of one encoding on two datasets, fractions or recipes are an error.
func Epochs(rows Rows) (Table, error) {
	jobs := slices.Clone(rows.Results)
	var evals []Eval
	var epochs []Number
	for _, e := range rows.Evals {
		if e.Split == Validation && e.Images > 0 {
			evals, epochs, jobs = append(evals, e), append(epochs, e.Epoch), append(jobs, Result{Job: e.Job})
		}
	}
	for _, group := range groups(jobs, []string{"encoding"}) {
		if err := unmixed(group); err != nil {
			return Table{}, err
		}
	}
	name := func(epoch Number) string { return strconv.FormatFloat(float64(epoch), 'g', -1, 64) }
	all := accuracies{}
	slices.Sort(epochs)
	for _, epoch := range slices.Compact(epochs) {
		all.columns = append(all.columns, name(epoch))
	}
	for _, e := range evals {
		all.add(e.Job, name(e.Epoch), e.Top1)
	}
	tests, notes := counted(rows.Results, Test)
	all.columns = append(all.columns, Test)
	for _, r := range tests {
		all.add(r.Job, Test, r.Test.Top1)
	}
	return all.table(notes), nil
}

// accuracies are top-1 accuracies of runs, a line for each encoding and a column for each name.
type accuracies struct {
	encodings, columns []string
	cells              map[[2]string]map[Job]float64 // by encoding and column, in percent
}

func (a *accuracies) add(job Job, column string, top1 Number) {
	cell := [2]string{job.Encoding, column}
	if !slices.Contains(a.encodings, job.Encoding) {
		a.encodings = append(a.encodings, job.Encoding)
	}
	if !slices.Contains(a.columns, column) {
		a.columns = append(a.columns, column)
	}
	if a.cells == nil {
		a.cells = map[[2]string]map[Job]float64{}
	}
	if a.cells[cell] == nil {
		a.cells[cell] = map[Job]float64{}
	}
	a.cells[cell][job] = 100 * float64(top1)
}

// table returns the means. n is the largest number of runs in a cell of the line; a note names cells with fewer runs,
// and a cell without runs is a dash.
func (a *accuracies) table(notes []string) Table {
	table := Table{Notes: notes}
	table.add(false, "encoding")
	table.add(true, append([]string{"n"}, a.columns...)...)
	for _, encoding := range a.encodings {
		n := 0
		for _, column := range a.columns {
			n = max(n, len(a.cells[[2]string{encoding, column}]))
		}
		line := []string{encoding, strconv.Itoa(n)}
		for _, column := range a.columns {
			format := "%.1f"
			if column == Test {
				format = "%.2f"
			}
			values := slices.Sorted(maps.Values(a.cells[[2]string{encoding, column}])) // a sum depends on it
			line = append(line, numeric.Summarize(values).Format(format))
			if 0 < len(values) && len(values) < n {
				table.Notes = append(table.Notes, fmt.Sprintf("%s, %s: %d of %d runs", encoding, column, len(values), n))
			}
		}
		table.Rows = append(table.Rows, line)
	}
	return table
}
