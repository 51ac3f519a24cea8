// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build cgo && !noxla

package backend

import (
	"os"
	"strings"
	"syscall"

	"github.com/gomlx/compute"
)

// memoryVariable prevents the restart with the value "0".
const memoryVariable = "WEPE_KEEP_MEMORY"

// tunables make glibc's allocator keep freed memory, in huge pages: one heap, no separate mappings, no trimming.
// mallopt has no option for huge pages, and is too late to limit the number of heaps: each thread of Go's runtime has
// its own before main, XLA's threads share these, and a heap other than the first unmaps every large block.
const tunables = "glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:" +
	"glibc.malloc.hugetlb=1"

// KeepMemory makes XLA on a CPU reuse the memory of its temporaries; otherwise they are mapped and unmapped in every
// call, a third of the time of a small model. Call it first in main, before opening or printing anything: it
// re-executes the program in the same process, with GLIBC_TUNABLES set, which glibc reads only at the start. Freed
// memory stays with the process. Child processes do not inherit the variable. WEPE_KEEP_MEMORY=0 or a user's
// GLIBC_TUNABLES disables it. It does nothing if GOMLX_BACKEND names another backend, without cgo and on other systems
// than Linux.
func KeepMemory() {
	state := os.Getenv(memoryVariable)
	if state == "kept" {
		_, _ = os.Unsetenv(memoryVariable), os.Unsetenv("GLIBC_TUNABLES")
		return
	}
	name := os.Getenv(compute.ConfigEnvVar)
	if state == "0" || os.Getenv("GLIBC_TUNABLES") != "" || strings.HasPrefix(name, "go") ||
		strings.HasPrefix(name, "onnx") {
		return
	}
	program, err := os.Executable()
	if err != nil {
		return
	}
	// It returns only on failure; the program then continues unchanged.
	_ = syscall.Exec(program, os.Args, append(os.Environ(), memoryVariable+"=kept", "GLIBC_TUNABLES="+tunables))
}
