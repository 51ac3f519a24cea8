// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package study

import (
	"strings"
	"testing"

	"github.com/wepe-go/wepe/data/vtab"
	"github.com/wepe-go/wepe/report"
)

// Dosovitskiy et al. 2021, Table 9 prints 72.7 as the mean of its row; the other means are from docs/vtab.md, computed
// from the 19 cells that the WePE paper prints of each row.
func TestThePublishedCellsHaveThePublishedMeans(t *testing.T) {
	var done []report.Result
	for _, task := range vtab.Tasks {
		done = append(done, report.Result{Job: report.Job{Dataset: task.Name}, Test: report.Metrics{Images: 1}})
	}
	got := map[string]string{}
	for _, row := range vtab1k().table(done, 1).Rows {
		got[row[0]] = strings.Join(row[4:], " ")
	}
	for line, want := range map[string]string{
		"natural, 7 of 7": "83.27 85.31", "specialized, 4 of 4": "84.65 85.22", "structured, 8 of 8": "57.50 61.20",
		"mean of 19 of 19 tasks": "72.71 75.14", "mean of the 3 groups": "75.14 77.24",
		"svhn": "80.90 –", "dmlab": "41.90 54.24", "kitti": "79.90 81.25", "eurosat": "95.60 93.89",
		"oxford_flowers102": "99.30 98.79",
	} {
		if got[line] != want {
			t.Errorf("%s: %q, want %q", line, got[line], want)
		}
	}
}
