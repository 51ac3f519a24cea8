// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// PeakMemory is the most bytes that this process held: on the GPU where nvidia-smi lists it, else in all.
func PeakMemory() (bytes float64, err error) {
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
	return 0, errors.New("/proc/self/status has no VmHWM")
}
