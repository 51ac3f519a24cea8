// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo && !noxla

package backend

// tunables make glibc's allocator keep freed memory, in huge pages: one heap, no separate mappings, no trimming.
// mallopt has no option for huge pages, and is too late to limit the number of heaps: each thread of Go's runtime has
// its own before main, XLA's threads share these, and a heap other than the first unmaps every large block.
const tunables = "glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:" +
	"glibc.malloc.hugetlb=1"
