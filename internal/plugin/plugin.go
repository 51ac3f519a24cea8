// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package plugin finds and opens the native libraries that compute: PJRT plugins, ONNX Runtime. It never downloads
// anything, and it protects XLA against a known miscompilation (flags.go). Programs use package backend.
package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Plugin is a PJRT plugin. The name may be the path.
type Plugin struct{ Name, Path string }

// Named returns the plugin that options like "cpu,devices=2" name, or an absolute path; the number of devices, 0 if
// they have none; and the other options. The error is [fs.ErrNotExist] if it is not installed.
func Named(installed []Plugin, options string) (p Plugin, rest string, devices int, err error) {
	parts := strings.Split(options, ",")
	var others []string
	for _, part := range parts[1:] {
		n, found := strings.CutPrefix(part, "devices=")
		if !found {
			others = append(others, part)
		} else if devices, err = strconv.Atoi(n); err != nil || devices < 1 {
			return p, "", 0, fmt.Errorf("devices=%s: want a number of devices, 1 or more", n)
		}
	}
	wanted, rest := parts[0], strings.Join(others, ",")
	if filepath.IsAbs(wanted) {
		return Plugin{wanted, wanted}, rest, devices, nil
	}
	for _, p := range Preferred(installed) {
		if p.Name == wanted || wanted == "" || strings.HasPrefix(p.Name, wanted+"_v") {
			return p, rest, devices, nil
		}
	}
	return p, "", 0, fmt.Errorf("PJRT plugin %q: %w", cmp.Or(wanted, "cpu"), fs.ErrNotExist)
}

// Preferred sorts plugins: GPUs, CPUs, others, and in each the unversioned names first.
func Preferred(plugins []Plugin) []Plugin {
	rank := func(p Plugin) int {
		return slices.IndexFunc([]string{"cuda", "cpu", ""}, func(k string) bool { return strings.HasPrefix(p.Name, k) })
	}
	slices.SortStableFunc(plugins, func(a, b Plugin) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Name, b.Name))
	})
	return plugins
}

// GPUMemory returns the bytes of GPU memory of each process that nvidia-smi lists with its memory, by process ID.
func GPUMemory(ctx context.Context) (map[int]float64, error) {
	list, err := exec.CommandContext(ctx, "nvidia-smi", "--query-compute-apps=pid,used_memory",
		"--format=csv,noheader,nounits").Output()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	}
	bytes := map[int]float64{}
	for line := range strings.Lines(string(list)) {
		var pid int
		var mebibytes float64
		if _, err := fmt.Sscanf(line, "%d, %g", &pid, &mebibytes); err == nil {
			bytes[pid] += mebibytes * (1 << 20) // a line for each GPU of a process
		}
	}
	return bytes, nil
}
