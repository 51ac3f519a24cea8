// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix

package backend

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/gomlx/compute"
)

// tunables make glibc's allocator keep freed memory, in huge pages: one heap, no separate mappings, no trimming.
// mallopt has no option for huge pages, and is too late to limit the number of heaps: each thread of Go's runtime has
// its own before main, XLA's threads share these, and a heap other than the first unmaps every large block.
const tunables = "glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:" +
	"glibc.malloc.hugetlb=1"

// tuneVariable prevents the restart with the value "0".
const tuneVariable = "WEPE_TUNE"

// Tune sets the environment variables without which the backends of this program are slow. Call it first in main,
// before opening or printing anything: the variables are read only when a process starts, so it re-executes the program
// in the same process if one of them is missing.
//
//   - XLA on a CPU: GLIBC_TUNABLES, so that the memory of temporaries is reused; otherwise it is mapped and unmapped in
//     every call, a third of the time of a small model. Freed memory stays with the process. Child processes do not
//     inherit the variable.
//   - Pure Go, built with GOEXPERIMENT=simd on amd64: cpu.fma=off in GODEBUG. The kernels of compute v0.1.6 leave the
//     upper halves of registers dirty, and math.Exp then takes hundreds of times longer.
//
// WEPE_TUNE=0, or a value of the user for the same variable, prevents it. On systems that are not Unix it does nothing.
func Tune() {
	state := os.Getenv(tuneVariable)
	if state == "done" {
		_ = os.Unsetenv(tuneVariable)
		if os.Getenv("GLIBC_TUNABLES") == tunables {
			_ = os.Unsetenv("GLIBC_TUNABLES")
		}
		return
	}
	missing := untuned(runtime.Version(), os.Getenv)
	if state == "0" || len(missing) == 0 {
		return
	}
	program, err := os.Executable()
	if err != nil {
		return
	}
	missing = append(missing, tuneVariable+"=done")
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool { // of equal names the first would count
		name, _, _ := strings.Cut(variable, "=")
		return slices.ContainsFunc(missing, func(set string) bool { return strings.HasPrefix(set, name+"=") })
	})
	// It returns only on failure; the program then continues unchanged.
	_ = syscall.Exec(program, os.Args, append(environment, missing...))
}

// untuned returns the variables that are missing, as name=value.
func untuned(goVersion string, lookup func(name string) string) (missing []string) {
	config := lookup(compute.ConfigEnvVar)
	others := strings.HasPrefix(config, "go") || strings.HasPrefix(config, "onnx")
	xla := runtime.GOOS == "linux" && slices.Contains(compute.List(), "xla")
	if xla && !others && lookup("GLIBC_TUNABLES") == "" {
		missing = append(missing, "GLIBC_TUNABLES="+tunables)
	}
	if debug := lookup("GODEBUG"); runtime.GOARCH == "amd64" && strings.Contains(goVersion, "simd") &&
		!strings.Contains(debug, "cpu.fma=") {
		missing = append(missing, "GODEBUG="+strings.Trim(debug+",cpu.fma=off", ","))
	}
	return missing
}
