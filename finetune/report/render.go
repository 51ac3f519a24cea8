// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Render fills the regions of a Markdown file. A region stands between two lines
//
//	<!-- WORDS -->
//	<!-- end -->
//
// and becomes what content says for the words; what content does not know is left as it is, and so is all else.
func Render(markdown string, content func(words []string) (text string, known bool, err error)) (string, error) {
	const end = "<!-- end -->"
	var out strings.Builder
	inside := "" // marker of the region being replaced
	for line := range strings.Lines(markdown) {
		trimmed := strings.TrimSpace(line)
		words, isComment := strings.CutPrefix(trimmed, "<!--")
		words, isWhole := strings.CutSuffix(words, "-->")
		text, known, err := "", false, error(nil)
		if isComment && isWhole && trimmed != end {
			text, known, err = content(strings.Fields(words))
		}
		switch {
		case err != nil:
			return "", fmt.Errorf("%w (in %q)", err, trimmed)
		case known && inside != "":
			return "", fmt.Errorf("report: %q has no %q before the next region", inside, end)
		case known:
			inside = trimmed
			out.WriteString(strings.TrimRight(line, "\r\n") + "\n\n" + text + "\n")
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

// TableRegion is the content of the regions
//
//	<!-- table: NAME by=dataset,encoding baseline=learned -->
//
// a table of the runs in NAME.jsonl of a directory. The settings after the name are the fields of a Spec and may be
// left out.
func TableRegion(directory string) func(words []string) (text string, known bool, err error) {
	return func(words []string) (string, bool, error) {
		if len(words) == 0 || words[0] != "table:" {
			return "", false, nil
		}
		text, err := tableOf(words[1:], directory)
		return text, true, err
	}
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
