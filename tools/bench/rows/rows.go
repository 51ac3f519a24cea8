// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package rows reads the rows that tools/bench and tools/cudacheck write, and computes their tables.
package rows

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

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

// Append appends rows of either kind to a file, unless path is empty, and to other writers.
func Append[R any](path string, rows []R, to ...io.Writer) error {
	if path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer file.Close()
		to = append(to, file)
	}
	encoder := json.NewEncoder(io.MultiWriter(to...))
	for _, row := range rows {
		if err := encoder.Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// Stamp returns the commit of this program, shortened, and the date, for rows.
func Stamp() (commit, date string) {
	revision, dirty, _ := strings.Cut(report.Commit(), "+")
	return strings.TrimSuffix(revision[:min(8, len(revision))]+"+"+dirty, "+"), time.Now().UTC().Format(time.DateOnly)
}

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

// Summary has a line per call and model: the lowest and highest ratio of all measurements, over batches and threads, of
// the learned table to each peer and of the other encodings to the learned table, and the same for the share of the
// product rate.
func Summary(rows []Row) report.Table {
	t := report.Table{Notes: notes(rows), Header: []string{"call", "model", "timm", "compiled", "jax", "product rate"},
		TextColumns: 2}
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
	for _, call := range calls {
		line := call[:]
		for _, column := range t.Header[2:] {
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
		TextColumns: 1}
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

// Compiled is a program that tools/cudacheck compiled for a GPU, with the compiler's information.
type Compiled struct {
	GPU         string  `json:"gpu"`
	Model       string  `json:"model"`
	Encoding    string  `json:"encoding"`
	DType       string  `json:"dtype"`
	TF32        bool    `json:"tf32"`
	Call        string  `json:"call"`
	Error       string  `json:"error,omitempty"`
	CPUSeconds  float64 `json:"cpu_seconds"` // of compilation
	Temporary   int64   `json:"temporary_bytes"`
	Peak        int64   `json:"peak_bytes"`
	Aliased     int64   `json:"alias_bytes"`
	Launches    int     `json:"launches"` // kernels and library calls of one execution
	Kernels     int     `json:"kernels"`  // different ones
	PTXLines    int     `json:"ptx_lines"`
	LongestName string  `json:"longest_kernel"` // of PTXLines lines
	Registers   int     `json:"registers"`      // at most, of the encodings' and all other kernels
	Spilled     int     `json:"spilled_bytes"`
	Commit      string  `json:"commit"`
	Date        string  `json:"date"`
}

func (r Compiled) String() string {
	at := fmt.Sprintf("%s %s %s %s %s", r.GPU, r.Model, r.Encoding, r.DType, r.Call)
	if r.Error != "" {
		return at + ": does not compile: " + r.Error
	}
	return fmt.Sprintf("%s: compiled in %.1f s; %d launches of %d kernels, at most %d lines of PTX (%s) and %d "+
		"registers, %.1f MB temporary", at, r.CPUSeconds, r.Launches, r.Kernels, r.PTXLines, r.LongestName, r.Registers,
		float64(r.Temporary)/1e6)
}
