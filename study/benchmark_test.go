// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/report"
)

// The numbers are worked out by hand: ± SE of 90 % of 400 images is √(0.9·0.1/400) = 1.5 points.
func TestBenchmark_MeansAreOfTheTasksThatAllHaveFinished(t *testing.T) {
	b := benchmark{
		Name: "Five",
		Tasks: []vtab.Task{{Name: "cats", Group: "animals", Test: 400}, {Name: "dogs", Group: "animals", Test: 400},
			{Name: "owls", Group: "animals", Test: 400}, {Name: "roads", Group: "maps", Test: 400},
			{Name: "rivers", Group: "maps", Test: 400}},
		published: []column{{"theirs", map[string]float64{
			"cats": 80, "dogs": 70, "owls": 72, "roads": 60, "maps": 66.5, // without the cell of rivers
		}}},
		conditions: "theirs are others",
	}
	const failed = -1
	for _, c := range []struct {
		name string
		runs map[string][2][]float64 // top-1 by task, of learned and of wepe
		want string
	}{
		{"everything", map[string][2][]float64{
			"cats": {{0.9, 0.9}, {0.91, 0.93}}, "dogs": {{0.9, 0.9}, {0.91, 0.93}}, "owls": {{0.9, 0.9}, {0.91, 0.93}},
			"roads": {{0.5, 0.5}, {0.51, 0.53}}, "rivers": {{0.5, 0.5}, {0.51, 0.53}},
		}, `
task|test images|learned|wepe|± SE|theirs
cats|400|90.00 (90.00 … 90.00)|92.00 (91.00 … 93.00)|1.50|80.00
dogs|400|90.00 (90.00 … 90.00)|92.00 (91.00 … 93.00)|1.50|70.00
owls|400|90.00 (90.00 … 90.00)|92.00 (91.00 … 93.00)|1.50|72.00
animals, 3 of 3||90.00|92.00||74.00
roads|400|50.00 (50.00 … 50.00)|52.00 (51.00 … 53.00)|2.50|60.00
rivers|400|50.00 (50.00 … 50.00)|52.00 (51.00 … 53.00)|2.50|–
maps, 2 of 2||50.00|52.00||66.50
mean of 5 of 5 tasks||74.00|76.00||71.00
mean of the 2 groups||70.00|72.00||70.25
`},
		{"a part", map[string][2][]float64{
			"cats": {{0.9, 0.9}, {0.91, 0.93}}, "owls": {{0.5}, {0.25, 0.25}},
			"roads": {{failed, failed}, {0.1, failed}}, "rivers": {{0.5, 0.5}, {0.3, 0.5}},
		}, `
task|test images|learned|wepe|± SE|theirs
cats|400|90.00 (90.00 … 90.00)|92.00 (91.00 … 93.00)|1.50|80.00
owls|400|50.00|25.00 (25.00 … 25.00)|2.50|72.00
animals, 1 of 3||90.00|92.00||80.00
roads|400|failed|10.00|1.50|60.00
rivers|400|50.00 (50.00 … 50.00)|40.00 (30.00 … 50.00)|2.50|–
maps, 1 of 2||50.00|40.00||–
mean of 2 of 5 tasks||70.00|66.00||–
mean of the 2 groups||70.00|66.00||–
`},
	} {
		var runs []report.Result
		for task, tops := range c.runs {
			for i, encoding := range []string{"learned", "wepe"} {
				for seed := range 2 {
					r := report.Result{Job: report.Job{Dataset: task, Encoding: encoding}}
					if seed < len(tops[i]) {
						r.Test = report.Metrics{Top1: report.JSONFloat(tops[i][seed]), Images: 400}
					}
					if r.Test.Top1 == failed {
						r.Failed = "diverged"
					}
					runs = append(runs, r)
				}
			}
		}
		table := b.table(runs, 2)
		got := "\n"
		for _, row := range slices.Concat([][]string{table.Header}, table.Rows) {
			got += strings.Join(row, "|") + "\n"
		}
		equal(t, c.name, got, c.want)
		equal(t, c.name+": notes", len(table.Notes), map[string]int{"everything": 2, "a part": 4}[c.name])
	}
}

// Dosovitskiy et al. 2021, Table 9 prints 72.7 as the mean of its row; the other means are from docs/vtab.md, computed
// from the 19 cells that the WePE paper prints of each row.
func TestVTAB_PublishedCellsHaveThePublishedMeans(t *testing.T) {
	var done []report.Result
	for _, task := range vtab.Tasks {
		done = append(done, report.Result{Job: report.Job{Dataset: task.Name}, Test: report.Metrics{Images: 1}})
	}
	got := map[string]string{}
	for _, row := range vtab1k.table(done, 1).Rows {
		got[row[0]] = strings.Join(row[4:], " ")
	}
	for line, want := range map[string]string{
		"natural, 7 of 7": "83.27 85.31", "specialized, 4 of 4": "84.65 85.22", "structured, 8 of 8": "57.50 61.20",
		"mean of 19 of 19 tasks": "72.71 75.14", "mean of the 3 groups": "75.14 77.24",
		"svhn": "80.90 –", "dmlab": "41.90 54.24", "kitti": "79.90 81.25", "eurosat": "95.60 93.89",
		"oxford_flowers102": "99.30 98.79",
	} {
		equal(t, line, got[line], want)
	}
}
