// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package rows reads the rows that tools/bench and tools/cudacheck write, and computes their tables.
package rows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/internal/disk"
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

	DType     string `json:"dtype,omitempty"`
	Backend   string `json:"backend"`
	Processor string `json:"processor"`
	Commit    string `json:"commit"`
	Date      string `json:"date"`
}

// Read reads rows, one JSON object a line.
func Read(path string) ([]Row, error) { return disk.ReadLines[Row](path) }

// notes are where and when rows were measured.
func notes(rows []Row) (lines []string) {
	for _, r := range rows {
		machine := fmt.Sprintf("%s, %s, %s", r.Processor, r.Backend, r.Date)
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, machine) })
		if i < 0 {
			lines = append(lines, machine+", commit "+r.Commit)
		} else if !strings.Contains(lines[i], r.Commit) {
			lines[i] += ", " + r.Commit
		}
	}
	return lines
}

// Table has a line for each row.
func Table(rows []Row) report.Table {
	t := report.Table{Notes: notes(rows), Header: []string{"call", "model", "batch", "threads", "ours", "peer", "ours, ms",
		"peer, ms", "ratio", "quartiles", "pairs", "product rate", "first call, s", "peak, MiB"}}
	t.Numeric = make([]bool, len(t.Header))
	for i := range t.Header {
		t.Numeric[i] = i >= 6 || i == 2 || i == 3
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{r.Call, r.Model, strconv.Itoa(r.Batch), strconv.Itoa(r.Threads), r.Position, r.Peer,
			fmt.Sprintf("%.1f", 1000*r.Ours), fmt.Sprintf("%.1f", 1000*r.Theirs), fmt.Sprintf("%.2f", r.Ratio),
			fmt.Sprintf("%.2f … %.2f", r.Quartiles[0], r.Quartiles[1]), strconv.Itoa(r.Pairs),
			fmt.Sprintf("%.0f %%", 100*r.Share), fmt.Sprintf("%.1f / %.1f", r.FirstOurs, r.FirstTheirs),
			fmt.Sprintf("%.0f / %.0f", r.PeakOurs, r.PeakTheirs)})
	}
	return t
}

// Summary has a line per call and model: the lowest and highest ratio of all measurements, over batches and threads, of the learned
// table to each peer and of the other encodings to the learned table, and the same for the share of the product rate.
func Summary(rows []Row) report.Table {
	t := report.Table{Notes: notes(rows), Header: []string{"call", "model", "timm", "compiled", "jax", "product rate"}}
	var calls [][2]string
	values := map[[3]string][]float64{} // by call, model and column
	for _, r := range rows {
		column := r.Position
		if r.Position == "learned" {
			column = r.Peer
			rate := [3]string{r.Call, r.Model, "product rate"}
			values[rate] = append(values[rate], r.Share)
		} else if !slices.Contains(t.Header, column) {
			t.Header = append(t.Header, column)
		}
		key := [3]string{r.Call, r.Model, column}
		values[key] = append(values[key], r.Ratio)
		if call := [2]string{r.Call, r.Model}; !slices.Contains(calls, call) {
			calls = append(calls, call)
		}
	}
	t.Numeric = make([]bool, len(t.Header))
	for _, call := range calls {
		line := call[:]
		for i, column := range t.Header[2:] {
			t.Numeric[i+2] = true
			line = append(line, span("%.2f", values[[3]string{call[0], call[1], column}]))
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// Steps has a line for each peer and encoding of a call on one device: the time relative to the learned table in the
// same rounds, images per second and memory, from the lowest to the highest of all measurements.
func Steps(rows []Row) report.Table {
	t := report.Table{Notes: notes(rows), Header: []string{"", "time × learned", "images/s", "MiB"},
		Numeric: []bool{false, true, true, true}}
	var names []string
	measured := map[string][3][]float64{}
	for _, r := range rows {
		name, values := r.Position, [3]float64{r.Ratio, float64(r.Batch) / r.Ours, r.PeakOurs}
		if r.Peer != "learned" { // a peer, to which the row compares the learned table
			name, values = r.Peer, [3]float64{1 / r.Ratio, float64(r.Batch) / r.Theirs, r.PeakTheirs}
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		all := measured[name]
		for i, v := range values {
			all[i] = append(all[i], v)
		}
		measured[name] = all
	}
	for _, name := range names {
		m := measured[name]
		t.Rows = append(t.Rows, []string{name, span("%.2f", m[0]), span("%.0f", m[1]), span("%.0f", m[2])})
	}
	return t
}

// span writes the lowest and highest value.
func span(format string, values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	low, high := fmt.Sprintf(format, slices.Min(values)), fmt.Sprintf(format, slices.Max(values))
	if low == high {
		return low
	}
	return low + "…" + high
}
