// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Row is what came of one part of a goal, a line of JSON in docs/runs/campaign.jsonl.
type Row struct {
	Goal    string         `json:"goal"` // R1 to R14
	Promise string         `json:"promise"`
	Part    string         `json:"part"`
	Date    string         `json:"date"`
	Commit  string         `json:"commit"`
	Seed    uint64         `json:"seed"`
	Whole   bool           `json:"whole"`  // as often as is promised
	Counts  map[string]int `json:"counts"` // how often, by what was done
	Defects []string       `json:"defects"`
	Seconds int            `json:"seconds"`
	Note    string         `json:"note,omitempty"` // what could not be done
}

// Read returns the rows of a file, none if there is no file.
func Read(path string) (rows []Row, err error) {
	raw, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for line := range strings.Lines(string(raw)) {
		var row Row
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, row)
	}
	return rows, err
}

// Append adds a row to a file.
func Append(path string, row Row) error {
	line, err := json.Marshal(row)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
