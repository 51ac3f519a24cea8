// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Command results fills the tables of Markdown files from recorded runs: see report.Render for the markers.
//
//	go run ./internal/results docs/runs docs/results.md
package main

import (
	"fmt"
	"os"

	"github.com/wepe-go/wepe/finetune/report"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: results RECORDS-DIRECTORY FILE.md ...")
		os.Exit(2)
	}
	for _, path := range os.Args[2:] {
		if err := fill(path, os.Args[1]); err != nil {
			fmt.Fprintf(os.Stderr, "results: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

// fill rewrites one file, by way of a temporary one so that an interrupt leaves the old text.
func fill(path, records string) error {
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := report.Render(string(before), records)
	if err != nil || after == string(before) {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(after), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
