// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package gomlxtest

import (
	"syscall"
	"testing"
)

// ProcessorTime is the CPU time of this process in nanoseconds; wall time is unreliable on a busy machine.
func ProcessorTime(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
