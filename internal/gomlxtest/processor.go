// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package gomlxtest

import (
	"syscall"
	"testing"
)

// ProcessorTime is that of this process in nanoseconds: times on the clock go wrong where other work runs.
func ProcessorTime(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
