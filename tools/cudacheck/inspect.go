// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/wepe-go/wepe/tools/bench/rows"
)

var (
	thunk     = regexp.MustCompile(`(?m)^\s*\d+: k\w+`)
	entry     = regexp.MustCompile(`(?m)^(?:\.visible )?\.entry (\w+)`)
	registers = regexp.MustCompile(`Used (\d+) registers`)
	spilled   = regexp.MustCompile(`(\d+) bytes spill stores`)
)

// inspect adds the information on kernels from XLA's dump of the last program and from ptxas.
func (c *compiler) inspect(r *rows.Compiled) error {
	sequences, err := filepath.Glob(filepath.Join(c.dump, "*thunk_sequence.txt"))
	if err != nil || len(sequences) == 0 {
		return fmt.Errorf("no sequence of kernels in %s: %w", c.dump, err)
	}
	sequence, err := os.ReadFile(sequences[len(sequences)-1])
	if err != nil {
		return err
	}
	r.Launches = len(thunk.FindAll(sequence, -1))
	files, err := filepath.Glob(filepath.Join(c.dump, "*.ptx"))
	if err != nil {
		return err
	}
	for _, path := range files {
		ptx, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		starts := entry.FindAllSubmatchIndex(ptx, -1)
		for i, at := range starts {
			end := len(ptx)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			r.Kernels++
			if lines := bytes.Count(ptx[at[0]:end], []byte("\n")); lines > r.PTXLines {
				r.PTXLines, r.LongestName = lines, string(ptx[at[2]:at[3]])
			}
		}
		said, err := exec.Command(c.ptxas, "-v", "-arch", c.target, "-o", os.DevNull, path).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ptxas %s: %w: %s", filepath.Base(path), err, said)
		}
		r.Registers = max(r.Registers, largest(registers, said))
		r.Spilled += largest(spilled, said)
	}
	return nil
}

// largest is the largest number that a pattern finds.
func largest(pattern *regexp.Regexp, text []byte) (n int) {
	for _, match := range pattern.FindAllSubmatch(text, -1) {
		if found, err := strconv.Atoi(string(match[1])); err == nil {
			n = max(n, found)
		}
	}
	return n
}
