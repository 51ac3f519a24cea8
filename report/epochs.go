// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Epochs makes one line per encoding and one column per epoch: the mean validation top-1 in percent over the seeds that
// were evaluated there, and last the mean test top-1 of finished runs. Evaluations that a resumed run repeated count
// once, as the later row has them. A cell of fewer seeds than n is named in a note, one without seeds is a dash.
func Epochs(rows Rows) Table {
	type cell struct {
		encoding string
		epoch    Number // -1 for the test
	}
	cells, jobs, epochs := map[cell]map[Job]float64{}, map[string]map[Job]bool{}, map[Number]bool{}
	var encodings []string
	add := func(job Job, epoch, top1 Number) {
		c := cell{job.Encoding, epoch}
		if cells[c] == nil {
			cells[c] = map[Job]float64{}
		}
		cells[c][job] = 100 * float64(top1)
	}
	for _, e := range rows.Evals {
		if e.Split != Validation {
			continue
		}
		if jobs[e.Encoding] == nil {
			encodings, jobs[e.Encoding] = append(encodings, e.Encoding), map[Job]bool{}
		}
		jobs[e.Encoding][e.Job], epochs[e.Epoch] = true, true
		add(e.Job, e.Epoch, e.Top1)
	}
	tests, notes := counted(rows.Results)
	for _, r := range tests {
		add(r.Job, -1, r.Test.Top1)
	}
	table := Table{Header: []string{"encoding"}, Numeric: []bool{false}, Notes: notes}
	table.add("n")
	order := slices.Sorted(maps.Keys(epochs))
	for _, epoch := range order {
		table.add(strconv.FormatFloat(float64(epoch), 'g', -1, 64))
	}
	table.add("test")
	for _, encoding := range encodings {
		n := len(jobs[encoding])
		line := []string{encoding, strconv.Itoa(n)}
		for i, epoch := range append(slices.Clone(order), -1) {
			name, format := "epoch "+table.Header[2+i], "%.1f"
			if epoch < 0 {
				name, format = "test", "%.2f"
			}
			values := slices.Sorted(maps.Values(cells[cell{encoding, epoch}])) // a sum depends on the order
			line = append(line, summarise(values).format(format))
			if 0 < len(values) && len(values) < n {
				table.Notes = append(table.Notes, fmt.Sprintf("%s, %s: %d of %d seeds", encoding, name, len(values), n))
			}
		}
		table.Rows = append(table.Rows, line)
	}
	return table
}
