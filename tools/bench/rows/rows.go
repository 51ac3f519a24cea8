// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package rows contains the rows that tools/bench writes and their table.
package rows

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/wepe-go/wepe/internal/jsonl"
	"github.com/wepe-go/wepe/report"
)

// Row compares one call of this library with one peer's: medians over interleaved pairs of calls. Times are wall
// seconds.
type Row struct {
	Call     string `json:"call"` // "inference" or "training"
	Model    string `json:"model"`
	Batch    int    `json:"batch"`
	Threads  int    `json:"threads"`
	Position string `json:"position"` // of ours
	Peer     string `json:"peer"`     // "timm", "compiled", "jax" or "learned": our learned table

	Ours      float64    `json:"ours_s"`
	Theirs    float64    `json:"peer_s"`
	Ratio     float64    `json:"ratio"` // the median of ours/theirs over pairs
	Quartiles [2]float64 `json:"quartiles"`
	Pairs     int        `json:"pairs"`
	Share     float64    `json:"share_of_product_rate"`

	FirstOurs   float64 `json:"ours_first_s"` // from the start of the process to the end of its first call
	FirstTheirs float64 `json:"peer_first_s"`
	PeakOurs    float64 `json:"ours_peak_mib"` // resident memory of the process
	PeakTheirs  float64 `json:"peer_peak_mib"`

	Backend   string `json:"backend"`
	Processor string `json:"processor"`
	Commit    string `json:"commit"`
	Date      string `json:"date"`
}

// cell identifies the measurement of a row: a later row replaces an earlier one in the table.
func (r Row) cell() [6]string {
	return [6]string{r.Call, r.Model, strconv.Itoa(r.Batch), strconv.Itoa(r.Threads), r.Position, r.Peer}
}

// Read reads rows, one JSON object a line.
func Read(path string) ([]Row, error) { return jsonl.Read[Row](path) }

// Table shows the last row of each cell, in the order in which the cells first appear.
func Table(rows []Row) report.Table {
	t := report.Table{Header: []string{"call", "model", "batch", "threads", "ours", "peer", "ours, ms", "peer, ms",
		"ratio", "quartiles", "pairs", "product rate", "first call, s", "peak, MiB"}}
	t.Numeric = make([]bool, len(t.Header))
	for i := range t.Header {
		t.Numeric[i] = i >= 6 || i == 2 || i == 3
	}
	var cells [][6]string
	last := map[[6]string]Row{}
	for _, row := range rows {
		cell := row.cell()
		if _, found := last[cell]; !found {
			cells = append(cells, cell)
		}
		last[cell] = row
	}
	for _, cell := range cells {
		r := last[cell]
		t.Rows = append(t.Rows, []string{r.Call, r.Model, cell[2], cell[3], r.Position, r.Peer,
			fmt.Sprintf("%.1f", 1000*r.Ours), fmt.Sprintf("%.1f", 1000*r.Theirs), fmt.Sprintf("%.2f", r.Ratio),
			fmt.Sprintf("%.2f … %.2f", r.Quartiles[0], r.Quartiles[1]), strconv.Itoa(r.Pairs),
			fmt.Sprintf("%.0f %%", 100*r.Share), fmt.Sprintf("%.1f / %.1f", r.FirstOurs, r.FirstTheirs),
			fmt.Sprintf("%.0f / %.0f", r.PeakOurs, r.PeakTheirs)})
		run := fmt.Sprintf("%s, %s, commit %s, %s", r.Processor, r.Backend, r.Commit, r.Date)
		if !slices.Contains(t.Notes, run) {
			t.Notes = append(t.Notes, run)
		}
	}
	return t
}
