// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package suggest finds the known name that is closest to a misspelled one.
package suggest

import (
	"fmt"
	"strings"
)

// Name returns the name nearest to a word, or "" if none is near: up to a third of its letters may be inserted, deleted
// or replaced, or it may be a part of the name.
func Name(word string, names []string) (nearest string) {
	word = strings.ToLower(word)
	least := max(1, len(word)/3) + 1
	for _, name := range names {
		if d := distance(word, strings.ToLower(name)); d < least {
			nearest, least = name, d
		}
	}
	for _, name := range names {
		if nearest == "" && len(word) > 2 && strings.Contains(strings.ToLower(name), word) {
			nearest = name
		}
	}
	return nearest
}

// Unknown is the error for a word that is none of the names.
func Unknown(what, word string, names []string) error {
	if name := Name(word, names); name != "" {
		return fmt.Errorf("unknown %s %q: did you mean %s?", what, word, name)
	}
	return fmt.Errorf("unknown %s %q: want one of %s", what, word, strings.Join(names, ", "))
}

// distance is the number of letters to insert, delete or replace, or of neighbouring letters to exchange, between two
// words.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
