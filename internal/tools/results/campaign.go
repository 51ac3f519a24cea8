// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/finetune/report"
	"github.com/wepe-go/wepe/internal/campaign"
)

// campaignTable is what was done for each part of each goal, all rows of a part together, commit and date of the last.
func campaignTable(path string) (table report.Table, err error) {
	rows, err := campaign.Read(path)
	if err != nil {
		return table, err
	}
	table = report.Table{Header: []string{"goal", "part", "how often", "fell", "minutes", "last at"},
		Numeric: []bool{false, false, false, true, true, false}}
	goalOf := func(r campaign.Row) int { n, _ := strconv.Atoi(strings.TrimPrefix(r.Goal, "R")); return n }
	slices.SortStableFunc(rows, func(a, b campaign.Row) int { return goalOf(a) - goalOf(b) })
	for i, row := range rows {
		if i == 0 || rows[i-1].Goal != row.Goal {
			table.Rows = append(table.Rows, []string{"**" + row.Goal + "**", row.Promise, "", "", "", ""})
		}
		isPart := func(r campaign.Row) bool { return r.Goal == row.Goal && r.Part == row.Part }
		if slices.IndexFunc(rows, isPart) < i {
			continue
		}
		counts, fell, seconds, last := map[string]int{}, 0, 0, row
		for _, r := range rows {
			if isPart(r) {
				for what, n := range r.Counts {
					counts[what] += n
				}
				fell, seconds, last = fell+len(r.Defects), seconds+r.Seconds, r
			}
		}
		var done []string
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			done = append(done, thousands(counts[what])+" "+what)
		}
		if last.Note != "" {
			done = append(done, last.Note)
		}
		table.Rows = append(table.Rows, []string{"", "`" + strings.ReplaceAll(row.Part, "|", ", ") + "`",
			strings.Join(done, ", "), fmt.Sprint(fell), fmt.Sprintf("%.1f", float64(seconds)/60),
			fmt.Sprintf("%.7s, %.10s", last.Commit, last.Date)})
	}
	return table, nil
}
