// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// seedRuns makes a run per top-1 accuracy, with seeds counted from 1.
func seedRuns(encoding string, top1 ...float64) []Result {
	var runs []Result
	for i, accuracy := range top1 {
		runs = append(runs, Result{
			Job:  Job{Recipe: "small", Dataset: "shapes", Fraction: 1, Encoding: encoding, Seed: int64(i + 1)},
			Test: Metrics{Loss: JSONFloat(2 - accuracy), Top1: JSONFloat(accuracy), Top5: 1, Images: 100}, WallSeconds: 90})
	}
	return runs
}

// shows compares a rendered table, whose first line may begin on the next.
func shows(t *testing.T, got, want string) {
	t.Helper()
	is.Equal(t, "table", "\n"+got, "\n"+strings.TrimPrefix(want, "\n"))
}

// Characters of Chinese take two columns, an accent of its own none; what would steer a terminal is shown.
func TestTable_TextIsAlignedByColumnsOfTheTerminal(t *testing.T) {
	table := Table{Header: []string{"class", "n"}, TextColumns: 1, Rows: [][]string{{"猫", "1"}, {"e\u0301", "22"}},
		Notes: []string{"a\x1b[31m"}}
	shows(t, table.Text(), "class   n\n─────  ──\n猫      1\ne\u0301      22\na\\x1b[31m\n")
}

// By hand: learned 30, 40, 50 and wepe 45, 41, 53 give the pairs +15, +1, +3, whose mean is 19/3 and whose standard
// deviation is √(172/3); t(0.975, 2) = 4.302653 is of the tables of Student's distribution. Equal seeds pair.
func TestTabulate_PairsRunsBySeed(t *testing.T) {
	runs := append(seedRuns("learned", 0.30, 0.40, 0.50), seedRuns("wepe", 0.45, 0.41, 0.53)...)
	runs = append(runs, seedRuns("none", 0.10)...)
	runs[0].Test.Top5 = 0.75
	table := gomlxtest.Must(NewTable(runs, Spec{Baseline: "learned"}))(t)
	shows(t, table.Text(), `
encoding  n  test top-1 %  top-5 %   loss  top-1 − learned    95 % interval  pairs  minutes
────────  ─  ────────────  ───────  ─────  ───────────────  ───────────────  ─────  ───────
learned   3         40.00    91.67  1.600                –                –      0      1.5
wepe      3         46.33   100.00  1.537            +6.33  -12.48 … +25.14      3      1.5
none      1         10.00   100.00  1.900           -20.00                –      1      1.5
`)
}

func TestACellIsSafeInMarkdownAndTextEndsWithoutBlanks(t *testing.T) {
	table := Table{Header: []string{"name", "n"}, TextColumns: 1, Rows: [][]string{{"a|b", "7"}},
		Notes: []string{"one", "two"}}
	shows(t, table.Markdown(), "| name | n |\n|---|---:|\n| a\\|b | 7 |\n\n- one\n- two\n")
	shows(t, table.Text(), "name  n\n────  ─\na|b   7\none\ntwo\n")
	table.Rows, table.Notes = [][]string{{"", ""}}, nil
	shows(t, table.Markdown(), "| name | n |\n|---|---:|\n| | |\n")
	table.Rows = nil
	shows(t, table.Text(), "name  n\n────  ─\n")
	table.Notes = []string{"a reason"}
	shows(t, table.Text(), "a reason\n")
}

// The means are worked out by hand; a seed of wepe at the second size is missing.
func TestAcrossHasAColumnForEachSize(t *testing.T) {
	var runs []Result
	for i, size := range []string{"24x24", "36x36"} {
		for _, r := range append(seedRuns("learned", 0.3, 0.5), seedRuns("wepe", 0.2, 0.7)...) {
			r.ImageSize, r.Recipe = size, "small at "+size
			r.Test.Top1 -= JSONFloat(i) / 10
			runs = append(runs, r)
		}
	}
	table := gomlxtest.Must(NewTable(runs[:7], Spec{Across: "size"}))(t)
	shows(t, table.Text(), `
encoding  n  24x24  36x36
────────  ─  ─────  ─────
learned   2   40.0   30.0
wepe      2   45.0   10.0
wepe, 36x36: 1 of 2 runs
`)
	table = gomlxtest.Must(NewTable(slices.Delete(slices.Clone(runs[:7]), 5, 6), Spec{Across: "size"}))(t)
	is.Equal(t, "notes where both lack a seed", table.Notes, []string{"36x36: 1 of 2 runs"})
	runs[0].Dataset = "other"
	_, err := NewTable(runs, Spec{Across: "size"})
	is.Refused(t, "a cell of two datasets", err, "dataset too")
	_, err = NewTable(runs, Spec{Across: "colour"})
	is.Refused(t, "an unknown column", err, `"colour"`)
}

func TestTabulateCountsTheLatestAttemptAndNamesExcludedRuns(t *testing.T) {
	runs := append(seedRuns("wepe", 0.10, 0.20), seedRuns("wepe", 0.30)...) // seed 1 was run again
	runs = append(runs, seedRuns("none", 0.05)...)
	runs[3].Test.Loss = JSONFloat(math.NaN())
	runs[3].Test.Images = 1
	runs = append(runs, Result{Job: Job{Recipe: "small", Encoding: "learned", Seed: 3}, Failed: "disk full"},
		Result{Job: Job{Recipe: "small", Encoding: "rope", Seed: 5}, Validation: Metrics{Images: 7}})
	// The earlier attempt, weights and hyperparameters are no other settings, nor is the former name of one.
	for i, settings := range []string{`{"epochs":7}`, `{"epochs":5,"smoothing":0.1,"o":{"x":2},"params":{"a":1}}`,
		`{"epochs":5,"label_smoothing":0.1,"o":{"x":3},"from":{"path":"p"}}`} {
		runs[i].Settings = []byte(settings)
	}
	table := gomlxtest.Must(NewTable(runs, Spec{}))(t)
	shows(t, table.Markdown(), `
| encoding | n | test top-1 % | range | loss | minutes |
|---|---:|---:|---:|---:|---:|
| wepe | 2 | 25.00 | 20.00 … 30.00 | 1.750 | 1.5 |
| none | 1 | 5.00 | 5.00 … 5.00 | – | 1.5 |

- learned seed 3 (small) failed: disk full
- rope seed 5 (small) was not evaluated on test images
- 1 earlier attempts at the same run are not counted
- 1 runs ended with a loss that is not finite; mean losses leave them out
- wepe (small) has runs of different settings, as o.x 2 and 3
`)
}

func TestPublishedResultsAreAColumnWithTheirConditions(t *testing.T) {
	runs := append(seedRuns("wepe", 0.25), seedRuns("none", 0.125)...)
	table := gomlxtest.Must(NewTable(runs, Spec{Published: map[string]float64{"wepe": 83.456, "rope": 80},
		Conditions: "of 300 epochs"}))(t)
	shows(t, table.Text(), `
encoding  n  test top-1 %          range   loss  published  minutes
────────  ─  ────────────  ─────────────  ─────  ─────────  ───────
wepe      1         25.00  25.00 … 25.00  1.750      83.46      1.5
none      1         12.50  12.50 … 12.50  1.875          –      1.5
published is of 300 epochs
`)
	table = gomlxtest.Must(NewTable(runs, Spec{Published: map[string]float64{"rope": 80}, Conditions: "of one"}))(t)
	is.Equal(t, "a table with no published result has a column of them", strings.Contains(table.Text(), "published"),
		false)
}

func TestTabulateRefusesToMixDatasets(t *testing.T) {
	runs := seedRuns("wepe", 0.1, 0.2)
	runs[1].Dataset = "cifar100"
	_, err := NewTable(runs, Spec{})
	is.Refused(t, "two datasets", err, "group by dataset")
	table := gomlxtest.Must(NewTable(runs, Spec{GroupBy: []string{"dataset", "encoding"}}))(t)
	is.Equal(t, "lines of two datasets", len(table.Rows), 2)
	groups := append(make([]string, 0, 20), "dataset")
	gomlxtest.Must(NewTable(runs, Spec{GroupBy: groups}))(t)
	is.Equal(t, "the caller's list", groups[:2][1], "")
	_, err = NewTable(runs, Spec{GroupBy: []string{"seed"}})
	is.Refused(t, "grouped by seed", err, `no column "seed" to group by, want one of dataset,`)
}
