// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/internal/numeric"
)

// Spec chooses how runs become a table.
type Spec struct {
	GroupBy  []string // columns that make a group, see columns; empty means encoding
	Baseline string   // encoding with which the others are compared, seed by seed; empty omits the column
	Split    string   // Test, the default, or Validation
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
// both.
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
	switch spec.Split = cmp.Or(spec.Split, Test); spec.Split {
	case Test:
	case Validation:
		runs = slices.Clone(runs)
		for i, r := range runs {
			runs[i].Test = r.Validation
		}
	default:
		return Table{}, fmt.Errorf("report: split is %q, want %s or %s", spec.Split, Validation, Test)
	}
	runs, notes := counted(runs, spec.Split)
	if spec.Across != "" {
		for _, cell := range groups(runs, []string{"encoding", spec.Across}) {
			if err := unmixed(cell); err != nil {
				return Table{}, err
			}
		}
		all := accuracies{}
		for _, r := range runs {
			all.add(r.Job, columns[spec.Across](r), r.Test.Top1)
		}
		return all.table(notes), nil
	}
	table := Table{Notes: notes}
	table.add(false, spec.GroupBy...)
	table.add(true, "n", spec.Split+" top-1 %")
	if spec.Baseline == "" {
		table.add(true, "range")
	}
	table.add(true, "top-5 %", "loss")
	if spec.Baseline != "" {
		table.add(true, "top-1 − "+spec.Baseline, interval, "pairs")
	}
	if !slices.ContainsFunc(runs, func(r Result) bool { _, ok := spec.Published[r.Encoding]; return ok }) {
		spec.Published = nil
	} else {
		table.add(true, "published")
		table.Notes = append(table.Notes, "published is "+spec.Conditions)
	}
	table.add(true, "minutes")
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

// interval is the header of confidence intervals.
const interval = "95 % interval"

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
	top1 := over(group, func(r Result) float64 { return 100 * float64(r.Test.Top1) })
	top5 := over(group, func(r Result) float64 { return 100 * float64(r.Test.Top5) })
	loss := over(group, func(r Result) float64 { return float64(r.Test.Loss) })
	wall := over(group, func(r Result) float64 { return float64(r.WallSeconds) / 60 })
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

// counted returns the runs of a table, with notes on the runs that it excludes.
func counted(runs []Result, split string) (kept []Result, notes []string) {
	latest := make(map[Job]int)
	repeats := 0
	for i, run := range runs {
		if run.Failed != "" {
			notes = append(notes, fmt.Sprintf("%s seed %d (%s) failed: %s", run.Encoding, run.Seed, run.Recipe, run.Failed))
			continue
		}
		if run.Test.Images == 0 {
			notes = append(notes, fmt.Sprintf("%s seed %d (%s) was not evaluated on %s images",
				run.Encoding, run.Seed, run.Recipe, split))
			continue
		}
		if _, seen := latest[run.Job]; seen {
			repeats++
		}
		latest[run.Job] = i
	}
	diverged := 0
	for i, run := range runs {
		if last, ok := latest[run.Job]; !ok || last != i {
			continue
		}
		kept = append(kept, run)
		if math.IsNaN(float64(run.Test.Loss)) {
			diverged++
		}
	}
	if repeats > 0 {
		notes = append(notes, fmt.Sprintf("%d earlier attempts at the same run are not counted", repeats))
	}
	if diverged > 0 {
		notes = append(notes, fmt.Sprintf(
			"%d runs ended with a loss that is not finite; mean losses leave them out", diverged))
	}
	return kept, notes
}

// groups splits runs by the named columns.
func groups(runs []Result, by []string) [][]Result {
	index := make(map[string]int)
	var out [][]Result
	for _, run := range runs {
		var key []string
		for _, name := range by {
			key = append(key, columns[name](run))
		}
		id := strings.Join(key, "\x00")
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
		if run.Encoding == baseline {
			partner[run.Job] = run
		}
	}
	var differences []float64
	for _, run := range group {
		job := run.Job
		if job.Encoding == baseline {
			continue
		}
		job.Encoding = baseline
		if other, ok := partner[job]; ok {
			differences = append(differences, 100*float64(run.Test.Top1-other.Test.Top1))
		}
	}
	return differences
}

func over(runs []Result, value func(Result) float64) numeric.Summary {
	values := make([]float64, len(runs))
	for i, run := range runs {
		values[i] = value(run)
	}
	return numeric.Summarize(values)
}

// accuracies are top-1 accuracies of runs, a line for each encoding and a column for each name.
type accuracies struct {
	encodings, columns []string
	cells              map[[2]string]map[Job]float64 // by encoding and column, in percent
}

func (a *accuracies) add(job Job, column string, top1 JSONFloat) {
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
			values := slices.Sorted(maps.Values(a.cells[[2]string{encoding, column}])) // a sum depends on it
			line = append(line, numeric.Summarize(values).Format("%.1f"))
			if 0 < len(values) && len(values) < n {
				table.Notes = append(table.Notes, fmt.Sprintf("%s, %s: %d of %d runs", encoding, column, len(values), n))
			}
		}
		table.Rows = append(table.Rows, line)
	}
	return table
}
