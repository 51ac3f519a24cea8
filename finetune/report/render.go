// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Render fills the tables of a Markdown file from records. A table stands between two lines
//
//	<!-- table: NAME by=dataset,encoding baseline=learned split=test -->
//	<!-- end -->
//
// and is computed from the runs in NAME.jsonl of the directory. The settings after the name are the fields of a Spec
// and may be left out. What stood between the two lines is replaced, all else is kept.
func Render(markdown, directory string) (string, error) {
	const start, end = "<!-- table:", "<!-- end -->"
	var out strings.Builder
	inside := "" // marker of the table being replaced
	for line := range strings.Lines(markdown) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, start):
			if inside != "" {
				return "", fmt.Errorf("report: %q has no %q before the next table", inside, end)
			}
			inside = trimmed
			settings, ok := strings.CutSuffix(strings.TrimPrefix(trimmed, start), "-->")
			if !ok {
				return "", fmt.Errorf("report: %q does not end in -->", trimmed)
			}
			table, err := tableOf(strings.Fields(settings), directory)
			if err != nil {
				return "", fmt.Errorf("%w (in %q)", err, trimmed)
			}
			out.WriteString(strings.TrimRight(line, "\r\n") + "\n\n" + table + "\n")
		case trimmed == end && inside != "":
			inside = ""
			out.WriteString(line)
		case inside == "":
			out.WriteString(line)
		}
	}
	if inside != "" {
		return "", fmt.Errorf("report: %q has no %q", inside, end)
	}
	return out.String(), nil
}

// tableOf renders the table that the words of a marker ask for.
func tableOf(words []string, directory string) (string, error) {
	if len(words) == 0 {
		return "", fmt.Errorf("report: a table without a name")
	}
	var spec Spec
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "by":
			spec.GroupBy = strings.Split(value, ",")
		case "baseline":
			spec.Baseline = value
		case "split":
			spec.Split = value
		default:
			return "", fmt.Errorf("report: unknown setting %q, want by=, baseline= or split=", word)
		}
	}
	rows, err := ReadFiles(filepath.Join(directory, words[0]+".jsonl"))
	if err != nil {
		return "", err
	}
	table, err := Tabulate(rows.Results, spec)
	if err != nil {
		return "", err
	}
	for _, skipped := range rows.Skipped {
		table.Notes = append(table.Notes, strings.TrimPrefix(skipped, directory+string(filepath.Separator)))
	}
	return table.Markdown(), nil
}
