// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

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
			bytes[pid] = mebibytes * (1 << 20)
		}
	}
	return bytes, nil
}
