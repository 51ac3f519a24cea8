// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"
)

// Epochs makes one line per encoding and one column per epoch, in the order of the epochs: the mean validation top-1 in
// percent over the seeds that were evaluated there, and last the mean test top-1 of those that finished. Evaluations
// that a resumed run repeated count once, as the later row has them. A cell of fewer seeds than n is named in a note,
// one of none is a dash.
func Epochs(rows Rows) Table {
	last := map[Job]map[Number]float64{}
	var epochs []Number
	var encodings []string
	for _, e := range rows.Evals {
		if e.Split != Validation {
			continue
		}
		if last[e.Job] == nil {
			last[e.Job] = map[Number]float64{}
		}
		last[e.Job][e.Epoch] = 100 * float64(e.Top1)
		if !slices.Contains(epochs, e.Epoch) {
			epochs = append(epochs, e.Epoch)
		}
		if !slices.Contains(encodings, e.Encoding) {
			encodings = append(encodings, e.Encoding)
		}
	}
	slices.Sort(epochs)
	tests, notes := counted(rows.Results)
	table := Table{Header: []string{"encoding", "n"}, Numeric: []bool{false, true}, Notes: notes}
	for _, epoch := range epochs {
		table.Header, table.Numeric = append(table.Header, strconv.FormatFloat(float64(epoch), 'g', -1, 64)),
			append(table.Numeric, true)
	}
	table.Header, table.Numeric = append(table.Header, "test"), append(table.Numeric, true)
	for _, encoding := range encodings {
		seeds := 0
		for job := range last {
			if job.Encoding == encoding {
				seeds++
			}
		}
		line := []string{encoding, strconv.Itoa(seeds)}
		add := func(name, format string, values []float64) {
			slices.Sort(values) // jobs come in no order, and a sum depends on it
			line = append(line, summarise(values).format(format))
			if n := len(values); 0 < n && n < seeds {
				table.Notes = append(table.Notes, fmt.Sprintf("%s, %s: %d of %d seeds", encoding, name, len(values), seeds))
			}
		}
		for i, epoch := range epochs {
			var values []float64
			for job, at := range last {
				if value, ok := at[epoch]; ok && job.Encoding == encoding {
					values = append(values, value)
				}
			}
			add("epoch "+table.Header[2+i], "%.1f", values)
		}
		var values []float64
		for _, r := range tests {
			if r.Encoding == encoding {
				values = append(values, 100*float64(r.Test.Top1))
			}
		}
		add("test", "%.2f", values)
		table.Rows = append(table.Rows, line)
	}
	return table
}
