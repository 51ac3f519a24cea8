// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package jsonl reads files with one JSON value per line.
package jsonl

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// Read returns the values of a file. Errors name file and line.
func Read[T any](path string) (values []T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		var value T
		if err := json.Unmarshal(lines.Bytes(), &value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		values = append(values, value)
	}
	return values, lines.Err()
}
