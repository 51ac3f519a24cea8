// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/wepe-go/wepe/internal/disk"
	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/report"
)

// Table compares the models in one analysis: a line for each measure, a column for each name, with the mean and, over
// several seeds, the range. A correlation with a constant is "undefined", a missing value "–".
func Table(rows []Row, analysis string) report.Table {
	type key struct{ measure, at string }
	var keys []key
	var names, notes []string
	values := map[key]map[string][]float64{}
	for _, r := range rows {
		if r.Analysis != analysis || r.Detail {
			continue
		}
		if r.Measure == "" {
			if note := r.Model + ": " + r.Note; !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
			continue
		}
		if !slices.Contains(names, r.Model) {
			names = append(names, r.Model)
		}
		k := key{r.Measure, r.At}
		if values[k] == nil {
			keys = append(keys, k)
			values[k] = map[string][]float64{}
		}
		values[k][r.Model] = append(values[k][r.Model], float64(r.Value))
	}
	table := report.Table{Header: append([]string{"", ""}, names...), TextColumns: 2, Notes: notes}
	for _, k := range keys {
		line := []string{k.measure, k.at}
		for _, name := range names {
			line = append(line, cell(values[k][name]))
		}
		table.Rows = append(table.Rows, line)
	}
	return table
}

// cell formats a mean, and the range of several values.
func cell(values []float64) string {
	s := numeric.Summarize(values)
	switch {
	case len(values) == 0:
		return "–"
	case s.N == 0:
		return "undefined"
	case len(values) == 1:
		return number(s.Mean)
	}
	text := fmt.Sprintf("%s (%s … %s)", number(s.Mean), number(s.Low), number(s.High))
	if undefined := len(values) - s.N; undefined > 0 {
		text += fmt.Sprintf(", %d undefined", undefined)
	}
	return text
}

// number prints about three digits.
func number(v float64) string {
	for decimals, least := range []float64{100, 10, 1, 0.01} {
		if math.Abs(v) >= least {
			return fmt.Sprintf("%.*f", decimals, v)
		}
	}
	return fmt.Sprintf("%.2g", v)
}

// Write writes rows as JSON lines, with the commit of the program.
func Write(path string, rows []Row) error {
	commit := report.Commit()
	return disk.Write(path, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		for _, r := range rows {
			r.Commit = commit
			if err := encoder.Encode(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// Read reads the rows written by Write.
func Read(path string) ([]Row, error) { return disk.ReadLines[Row](path) }
