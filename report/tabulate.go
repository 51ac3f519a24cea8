// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/internal/numeric"
	"github.com/wepe-go/wepe/internal/setting"
)

// Spec chooses how runs become a table.
type Spec struct {
	GroupBy  []string // columns that make a group, see columns; empty means encoding
	Baseline string   // encoding with which the others are compared, seed by seed; empty omits the column
	Across   string   // a column whose values become columns of mean test top-1; excludes other fields

	Published  map[string]float64 // published top-1 %, by encoding; a column if the table has one of them
	Conditions string             // of the published results, for a note
}

// columns are the columns by which runs can be grouped.
var columns = map[string]func(Result) string{
	"recipe":   func(r Result) string { return r.Recipe },
	"dataset":  func(r Result) string { return r.Dataset },
	"fraction": func(r Result) string { return strconv.FormatFloat(r.Fraction, 'g', -1, 64) },
	"encoding": func(r Result) string { return r.Encoding },
	"size":     func(r Result) string { return r.ImageSize },
}

// NewTable makes one line per group, in the order in which the groups first appear: the number of runs n and the mean
// of the test results over seeds; with a baseline, the mean difference to its run of the same group, recipe, data and
// seed, with the 95 % confidence interval (Student's t) over n pairs; without one, the range over seeds. Top-5 is left
// out if it is 100 % everywhere, as with five classes or fewer.
//
// Runs of different recipes or data are not mixed: a group that contains two of either is an error that names the
// column to group by. A repeated run counts once, with the latest attempt; a failed run does not count. Notes name
// both, and runs of one recipe's name with different settings.
//
// With Across there is one line per encoding and one column per value of that column: mean top-1 in percent, n the
// number of runs in a cell; notes name cells with fewer.
func NewTable(runs []Result, spec Spec) (Table, error) {
	if len(spec.GroupBy) == 0 {
		spec.GroupBy = []string{"encoding"}
	}
	for _, name := range slices.Concat(spec.GroupBy, []string{cmp.Or(spec.Across, "encoding")}) {
		if columns[name] == nil {
			return Table{}, fmt.Errorf("report: no column %q to group by, want one of %s",
				name, strings.Join(slices.Sorted(maps.Keys(columns)), ", "))
		}
	}
	runs, notes := Counted(runs)
	if spec.Across != "" {
		return across(runs, spec.Across, notes)
	}
	table := Table{Notes: notes, TextColumns: len(spec.GroupBy)}
	table.Header = slices.Concat(spec.GroupBy, []string{"n", "test top-1 %"})
	if spec.Baseline == "" {
		table.Header = append(table.Header, "range")
	}
	table.Header = append(table.Header, "top-5 %", "loss")
	if spec.Baseline != "" {
		table.Header = append(table.Header, "top-1 − "+spec.Baseline, "95 % interval", "pairs")
	}
	if !slices.ContainsFunc(runs, func(r Result) bool { _, ok := spec.Published[r.Encoding]; return ok }) {
		spec.Published = nil
	} else {
		table.Header = append(table.Header, "published")
		table.Notes = append(table.Notes, "published is "+spec.Conditions)
	}
	table.Header = append(table.Header, "minutes")
	for _, group := range groups(runs, spec.GroupBy) {
		line, err := spec.line(group, runs)
		if err != nil {
			return Table{}, err
		}
		table.Rows = append(table.Rows, line)
	}
	table.dropTop5()
	return table, nil
}

// across is the table of NewTable with Spec.Across. n is the largest number of runs in a cell of the line; a cell
// without runs is a dash.
func across(runs []Result, by string, notes []string) (Table, error) {
	table := Table{Notes: notes, Header: []string{"encoding", "n"}, TextColumns: 1}
	var fewer []string
	in := map[string][]string{} // the lines with these cells
	for _, column := range groups(runs, []string{by}) {
		table.Header = append(table.Header, columns[by](column[0]))
	}
	for _, line := range groups(runs, []string{"encoding"}) {
		cells, n := map[string][]float64{}, 0
		for _, cell := range groups(line, []string{by}) {
			if err := unmixed(cell); err != nil {
				return Table{}, err
			}
			top1 := valuesOf(cell, percentTop1)
			slices.Sort(top1) // a sum depends on it
			cells[columns[by](cell[0])], n = top1, max(n, len(cell))
		}
		row := []string{line[0].Encoding, strconv.Itoa(n)}
		for _, column := range table.Header[2:] {
			row = append(row, numeric.Summarize(cells[column]).Format("%.1f"))
			if has := len(cells[column]); 0 < has && has < n {
				note := fmt.Sprintf("%s: %d of %d runs", column, has, n)
				if in[note] == nil {
					fewer = append(fewer, note)
				}
				in[note] = append(in[note], row[0])
			}
		}
		table.Rows = append(table.Rows, row)
	}
	for _, note := range fewer {
		if len(in[note]) < len(table.Rows) {
			note = strings.Join(in[note], ", ") + ", " + note
		}
		table.Notes = append(table.Notes, note)
	}
	return table, nil
}

// unmixed returns an error for a group of runs with different recipes or data.
func unmixed(group []Result) error {
	for _, name := range []string{"dataset", "fraction", "recipe"} {
		if distinct := groups(group, []string{name}); len(distinct) > 1 {
			return fmt.Errorf("report: a group with runs of %s %q and of %q: group by %s too",
				name, columns[name](distinct[0][0]), columns[name](distinct[1][0]), name)
		}
	}
	return nil
}

// line returns the line of a group of runs.
func (spec Spec) line(group, runs []Result) (line []string, err error) {
	if err := unmixed(group); err != nil {
		return nil, err
	}
	over := func(value func(Result) float64) numeric.Summary { return numeric.Summarize(valuesOf(group, value)) }
	top1, top5 := over(percentTop1), over(func(r Result) float64 { return 100 * float64(r.Test.Top5) })
	loss := over(func(r Result) float64 { return float64(r.Test.Loss) })
	wall := over(func(r Result) float64 { return float64(r.WallSeconds) / 60 })
	for _, name := range spec.GroupBy {
		line = append(line, columns[name](group[0]))
	}
	line = append(line, strconv.Itoa(len(group)), top1.Format("%.2f"))
	if spec.Baseline == "" {
		line = append(line, top1.FormatRange("%.2f"))
	}
	line = append(line, top5.Format("%.2f"), loss.Format("%.3f"))
	if spec.Baseline != "" {
		delta := numeric.Summarize(paired(group, runs, spec.Baseline))
		line = append(line, delta.Format("%+.2f"), delta.FormatInterval("%+.2f"), strconv.Itoa(delta.N))
	}
	if spec.Published != nil {
		cell := "–"
		if top1, ok := spec.Published[group[0].Encoding]; ok {
			cell = fmt.Sprintf("%.2f", top1)
		}
		line = append(line, cell)
	}
	return append(line, wall.Format("%.1f")), nil
}

// Counted returns the runs that tables and plots count: of each job the latest attempt that was evaluated on test
// images. Notes name the others, and encodings whose runs have different settings under one name of a recipe.
func Counted(runs []Result) (kept []Result, notes []string) {
	latest := make(map[Job]int)
	repeats, diverged := 0, 0
	for i, run := range runs {
		_, seen := latest[run.Job]
		switch {
		case run.Failed != "":
			notes = append(notes, fmt.Sprintf("%s seed %d (%s) failed: %s", run.Encoding, run.Seed, run.Recipe, run.Failed))
			continue
		case run.Test.Images == 0:
			notes = append(notes, fmt.Sprintf("%s seed %d (%s) was not evaluated on test images", run.Encoding, run.Seed,
				run.Recipe))
			continue
		case seen:
			repeats++
		}
		latest[run.Job] = i
	}
	for i, run := range runs {
		if last, ok := latest[run.Job]; ok && last == i {
			kept = append(kept, run)
			if math.IsNaN(float64(run.Test.Loss)) {
				diverged++
			}
		}
	}
	if repeats > 0 {
		notes = append(notes, fmt.Sprintf("%d earlier attempts at the same run are not counted", repeats))
	}
	if diverged > 0 {
		notes = append(notes, fmt.Sprintf("%d runs ended with a loss that is not finite; mean losses leave them out",
			diverged))
	}
	return kept, append(notes, mixed(kept)...)
}

// mixed has a note for each encoding of a recipe whose runs have different settings. Hyperparameters do not count,
// whose default may be absent, nor where weights and images are from.
func mixed(runs []Result) (notes []string) {
	settings := func(r Result) map[string]string {
		all, _ := setting.Values(json.RawMessage(cmp.Or(string(setting.Current(r.Settings)), "{}"))) // rows are valid JSON
		maps.DeleteFunc(all, func(name, _ string) bool {
			group, _, _ := strings.Cut(name, ".")
			return slices.Contains([]string{"params", "from", "data", "measured", "origin"}, group)
		})
		return all
	}
	for _, group := range groups(runs, []string{"recipe", "dataset", "fraction", "encoding"}) {
		first := settings(group[0])
		for _, r := range group[1:] {
			name, was, is, err := setting.First(first, settings(r))
			if err == nil && name != "" && len(group[0].Settings) > 0 && len(r.Settings) > 0 {
				notes = append(notes, fmt.Sprintf("%s (%s) has runs of different settings, as %s %s and %s", r.Encoding, r.Recipe,
					name, strings.Trim(was, `"`), strings.Trim(is, `"`)))
				break
			}
		}
	}
	return notes
}

// groups splits runs by the named columns.
func groups(runs []Result, by []string) [][]Result {
	index := make(map[string]int)
	var out [][]Result
	for _, run := range runs {
		id := ""
		for _, name := range by {
			id += columns[name](run) + "\x00"
		}
		at, ok := index[id]
		if !ok {
			at = len(out)
			index[id] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], run)
	}
	return out
}

// paired returns the differences in top-1, in points, between each run of a group and the run of the baseline encoding
// with the same recipe, data and seed. The baseline itself has none.
func paired(group, runs []Result, baseline string) []float64 {
	partner := make(map[Job]Result)
	for _, run := range runs {
		partner[run.Job] = run
	}
	var differences []float64
	for _, run := range group {
		job := run.Job
		job.Encoding = baseline
		if other, ok := partner[job]; ok && run.Encoding != baseline {
			differences = append(differences, 100*float64(run.Test.Top1-other.Test.Top1))
		}
	}
	return differences
}

func percentTop1(r Result) float64 { return 100 * float64(r.Test.Top1) }

func valuesOf(runs []Result, value func(Result) float64) (values []float64) {
	for _, run := range runs {
		values = append(values, value(run))
	}
	return values
}
