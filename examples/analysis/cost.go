// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/internal/program"
	"github.com/wepe-go/wepe/study"
)

// measureCost prints and writes what encodings cost.
func (o options) measureCost(ctx context.Context) error {
	o.cost.Log, o.cost.Memory = program.Line, o.inFreshProcess
	rows, err := o.cost.Run(ctx)
	if err != nil {
		return err
	}
	program.Printf("\n%s, %s\n\n%s", o.cost.Backend, o.cost.DType, analysis.Table(rows, "cost").Text())
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	path := filepath.Join(o.out, "cost.jsonl")
	program.Printf("\nrows: %s\n", path)
	return analysis.Write(path, rows)
}

// inFreshProcess measures memory: what one model left behind does not count for the next.
func (o options) inFreshProcess(ctx context.Context, variant string, side int, arm study.Arm) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	child := exec.CommandContext(ctx, self, "-what", "cost", "-variant", variant, "-sizes", strconv.Itoa(side), "-dtype",
		o.cost.DType, "-batch", strconv.Itoa(o.cost.Forward), "-step-batch", strconv.Itoa(o.cost.Step), "-memory-of",
		arm.Label)
	var complaint strings.Builder
	child.Stderr = &complaint
	answer, err := child.Output()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return strconv.ParseFloat(strings.TrimSpace(string(answer)), 64)
}

// printMemory makes an inference and two steps with one encoding and prints the most bytes that the process held: on
// the GPU where nvidia-smi knows of it, else in all.
func (o options) printMemory() error {
	for _, arm := range o.cost.Arms {
		if arm.Label != o.memoryOf {
			continue
		}
		t, err := o.cost.NewTiming(o.cost.Variants[0], o.cost.Sides[0], arm)
		if err != nil {
			return err
		}
		defer t.Close()
		for _, call := range []func() error{t.Forward, t.Step, t.Step} {
			if err := call(); err != nil {
				return err
			}
		}
		bytes, err := peak()
		program.Printf("%.0f\n", bytes)
		return err
	}
	return fmt.Errorf("-memory-of: no encoding %q", o.memoryOf)
}

func peak() (bytes float64, err error) {
	if list, err := exec.Command("nvidia-smi", "--query-compute-apps=pid,used_memory",
		"--format=csv,noheader,nounits").Output(); err == nil {
		for line := range strings.Lines(string(list)) {
			pid, used, _ := strings.Cut(strings.TrimSpace(line), ", ")
			if n, err := strconv.ParseFloat(used, 64); err == nil && pid == strconv.Itoa(os.Getpid()) {
				return n * (1 << 20), nil
			}
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			n, err := strconv.ParseFloat(fields[1], 64)
			return n * 1024, err
		}
	}
	return 0, errors.New("the system does not say how much memory a process held")
}
