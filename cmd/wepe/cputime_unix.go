// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// cpuTime returns the CPU seconds of all threads of this process; nil if the system does not count them.
var cpuTime = func() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // only for invalid arguments
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}
