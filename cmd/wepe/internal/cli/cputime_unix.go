// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import "syscall"

// CPUTime returns the seconds that all threads of this process have used; nil where the system does not say.
var CPUTime = func() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // of its arguments, which are right
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
