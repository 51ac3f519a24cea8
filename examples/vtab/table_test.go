// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune/report"
	"github.com/wepe-go/wepe/finetune/study"
)

// tabulated renders a study of the given tasks without a sweep, where top1 gives the accuracies, negative for none and
// 2 for a training that diverged.
func tabulated(t *testing.T, list string, top1 func(u study.Unit) float64) (rows map[string][]string, notes string) {
	t.Helper()
	o, err := parse([]string{"-plan", "-tasks", list, "-position", "learned,hybrid", "-seeds", "2"})
	if err != nil {
		t.Fatal(err)
	}
	units, err := o.study.Units(nil)
	if err != nil {
		t.Fatal(err)
	}
	done := study.Results{}
	for _, u := range units {
		switch v := top1(u); {
		case v == 2:
			done[u.ID] = report.Result{Failed: "diverged"}
		case v >= 0:
			done[u.ID] = report.Result{ImageSize: "24x40", Steps: 17, Settings: []byte(`{"model":{"width":12},"batch_size":5}`),
				Test: report.Metrics{Top1: report.Number(v), Images: 400}}
		}
	}
	table, err := o.table(done)
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string][]string{}
	for _, row := range append(table.Rows, table.Header) {
		if len(row) != len(table.Numeric) {
			t.Errorf("row %q has %d of %d cells", row, len(row), len(table.Numeric))
		}
		rows[row[0]] = row[1:]
	}
	return rows, strings.Join(table.Notes, "\n")
}

func groupOf(name string) string {
	return tasks[slices.IndexFunc(tasks, func(t task) bool { return t.name == name })].group
}

func check(t *testing.T, rows map[string][]string, name, want string) {
	t.Helper()
	if got := strings.Join(rows[name], "|"); got != want {
		t.Errorf("%s: %s, want %s", name, got, want)
	}
}

func TestTheTableOfAllTasksHasBothMeansBesideThePublished(t *testing.T) {
	rows, notes := tabulated(t, "all", func(u study.Unit) float64 {
		v := map[string]float64{natural: 0.9, specialized: 0.8, structured: 0.5}[groupOf(u.Task.Name)]
		if u.Position == "hybrid" {
			v += 0.02*float64(u.Seed) + 0.01 // seeds 1 point around two more
		}
		return v
	})
	check(t, rows, "task", "test images|learned|hybrid|± SE|L/16 learned|L/16 WePE")
	check(t, rows, "svhn", "400|90.00 (90.00 … 90.00)|92.00 (91.00 … 93.00)|1.50|80.90|–") // √(0.9·0.1/400)
	check(t, rows, "dmlab", "400|50.00 (50.00 … 50.00)|52.00 (51.00 … 53.00)|2.50|41.90|54.24")
	check(t, rows, "natural, 7 of 7", "|90.00|92.00||83.27|85.31")
	check(t, rows, "specialized, 4 of 4", "|80.00|82.00||84.65|85.22")
	check(t, rows, "structured, 8 of 8", "|50.00|52.00||57.50|61.20")
	check(t, rows, "mean of 19 of 19 tasks", "|71.05|73.05||72.71|75.14") // (7·90 + 4·80 + 8·50)/19
	check(t, rows, "mean of the 3 groups", "|73.33|75.33||75.14|77.24")
	for _, want := range []string{"means are over the 19 of 19", "printed 72.70", "75.14, not the 73.59",
		"width 12, depth 0, patches of 0 at 24x40 px, 17 steps of 5"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q: %s", want, notes)
		}
	}
}

func TestMeansAreOverTheTasksThatAllHaveFinished(t *testing.T) {
	rows, notes := tabulated(t, "dtd,kitti,dmlab,eurosat,svhn", func(u study.Unit) float64 {
		switch {
		case u.Task.Name == "dtd" && u.Position == "hybrid" && u.Seed == 1:
			return -1
		case u.Task.Name == "dmlab" && u.Position == "learned":
			return 2
		case u.Task.Name == "svhn":
			return 0.30
		}
		return 0.25
	})
	check(t, rows, "dtd", "400|25.00 (25.00 … 25.00)|25.00|2.17|74.10|–")
	check(t, rows, "dmlab", "400|failed|25.00 (25.00 … 25.00)|2.17|41.90|54.24")
	check(t, rows, "natural, 1 of 7", "|30.00|30.00||80.90|–") // svhn alone
	check(t, rows, "specialized, 1 of 4", "|25.00|25.00||95.60|93.89")
	check(t, rows, "structured, 1 of 8", "|25.00|25.00||79.90|81.25")
	check(t, rows, "mean of 3 of 19 tasks", "|26.67|26.67||85.47|–")
	check(t, rows, "mean of the 3 groups", "|26.67|26.67||85.47|–")
	for _, want := range []string{"over the 3 of 19", "dtd is in no mean (hybrid: 1 of 2 to do)",
		"dmlab is in no mean (learned: 2 of 2 diverged)"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q: %s", want, notes)
		}
	}
	rows, notes = tabulated(t, "natural", func(study.Unit) float64 { return -1 })
	check(t, rows, "svhn", "–|–|–|–|80.90|–")
	check(t, rows, "mean of 0 of 19 tasks", "|–|–||–|–")
	if _, ok := rows["structured, 0 of 8"]; ok || !strings.Contains(notes, "nothing is measured") {
		t.Errorf("rows %v, notes %s", rows, notes)
	}
}
