// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/wepe-go/wepe/internal/printable"
)

// Table has columns of text, then of numbers, which are aligned right.
type Table struct {
	Header      []string
	TextColumns int // number of columns of text
	Rows        [][]string
	Notes       []string // runs that the numbers exclude: failed, repeated or diverged ones
}

// dropTop5 removes a column of top-5 accuracies that are all 100 %.
func (t *Table) dropTop5() {
	at := slices.Index(t.Header, "top-5 %")
	if at < 0 || slices.ContainsFunc(t.Rows, func(row []string) bool { return row[at] != "100.00" }) {
		return
	}
	t.Header = slices.Delete(t.Header, at, at+1)
	for i := range t.Rows {
		t.Rows[i] = slices.Delete(t.Rows[i], at, at+1)
	}
}

// Markdown renders the table for a Markdown file, notes below it.
func (t Table) Markdown() string {
	var b strings.Builder
	write := func(line []string) {
		b.WriteString("|")
		for _, cell := range line {
			b.WriteString(strings.TrimRight(" "+strings.ReplaceAll(cell, "|", `\|`), " ") + " |")
		}
		b.WriteString("\n")
	}
	write(t.Header)
	numbers := len(t.Header) - t.TextColumns
	b.WriteString("|" + strings.Repeat("---|", t.TextColumns) + strings.Repeat("---:|", numbers) + "\n")
	for _, line := range t.Rows {
		write(line)
	}
	for i, note := range t.Notes {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString("- " + printable.Line(note) + "\n")
	}
	return b.String()
}

// width counts the columns of a terminal, the same in any locale.
var width = runewidth.Condition{StrictEmojiNeutral: true}

// Text renders the table for a terminal, columns aligned.
func (t Table) Text() string {
	widths := make([]int, len(t.Header))
	lines := make([][]string, 0, 1+len(t.Rows))
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		line := slices.Clone(row)
		for i, cell := range row {
			line[i] = printable.Line(cell)
		}
		lines = append(lines, line)
	}
	if len(t.Rows) == 0 && len(t.Notes) > 0 {
		lines = nil // only the reasons
	}
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], width.StringWidth(cell))
		}
	}
	var b strings.Builder
	for l, line := range lines {
		var padded []string
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-width.StringWidth(cell))
			if i < t.TextColumns {
				padded = append(padded, cell+space)
			} else {
				padded = append(padded, space+cell)
			}
		}
		b.WriteString(strings.TrimRight(strings.Join(padded, "  "), " ") + "\n")
		if l == 0 {
			for i := range widths {
				padded[i] = strings.Repeat("─", widths[i])
			}
			b.WriteString(strings.Join(padded, "  ") + "\n")
		}
	}
	for _, note := range t.Notes {
		b.WriteString(printable.Line(note) + "\n")
	}
	return b.String()
}
