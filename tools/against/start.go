// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/report"
)

// starts prints what fresh processes take from their start to the end of their first step: medians.
func (o options) starts() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	table := report.Table{Header: []string{"model", "batch", "first step after, s", "processor s",
		"a later step, processor s", "processes"}, Numeric: []bool{false, true, true, true, true, true}}
	for _, variant := range o.variants {
		for _, batch := range o.batches {
			var clock, first, later []float64
			for range o.rounds {
				child := exec.Command(self, "-first-step", "-variants", variant, "-batches", strconv.Itoa(batch), "-position",
					o.position)
				child.Stderr = os.Stderr
				began := time.Now()
				answer, err := child.Output()
				if err != nil {
					return err
				}
				var end, a, b float64
				if _, err := fmt.Sscan(string(answer), &end, &a, &b); err != nil {
					return fmt.Errorf("%q: %w", answer, err)
				}
				clock = append(clock, end-float64(began.UnixNano())/1e9)
				first, later = append(first, a), append(later, b)
			}
			row := []string{variant, strconv.Itoa(batch)}
			for _, s := range [][]float64{clock, first, later} {
				slices.Sort(s)
				row = append(row, fmt.Sprintf("%.2f", s[len(s)/2]))
			}
			table.Rows = append(table.Rows, append(row, strconv.Itoa(o.rounds)))
			program.Line(strings.Join(row, "  "))
		}
	}
	program.Printf("\n%s", table.Text())
	return nil
}

// twoSteps prints when the first of two steps ended, the processor time until then, and that of the second.
func (o options) twoSteps() error {
	t, err := o.timing(o.variants[0], o.batches[0])
	if err != nil {
		return err
	}
	if err := t.Step(); err != nil {
		return err
	}
	end, first := float64(time.Now().UnixNano())/1e9, program.ProcessorTime()
	if err := t.Step(); err != nil {
		return err
	}
	_, err = fmt.Printf("%.6f %.3f %.3f\n", end, first, program.ProcessorTime()-first)
	return err
}
