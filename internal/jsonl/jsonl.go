// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package jsonl reads files with one JSON value per line.
package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// Read returns the values of a file, with lines of any length. Errors name file and line.
func Read[T any](path string) (values []T, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		var value T
		if err := json.Unmarshal(line, &value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		values = append(values, value)
	}
	return values, nil
}
