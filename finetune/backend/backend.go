// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package backend opens the GoMLX backend on which models of this library run.
//
//	b, err := backend.Open() // GOMLX_BACKEND, or the fastest that is installed
//
// Use it in place of [compute.New]: Open never downloads anything, returns an error for an unknown backend, and
// disables fusions of XLA's CPU plugin that compute wrong sums (docs/backends.md).
package backend

import (
	"io"

	"github.com/gomlx/compute"

	"github.com/wepe-go/wepe/internal/backend"
)

// Open opens a backend and prints one line with its name and the reason for the choice.
//
// An explicit configuration, from [Config] or else from the variable GOMLX_BACKEND, is opened or is an error. Without
// one Open takes the first of these that opens:
//
//   - xla:cuda: a CUDA PJRT plugin is installed and there is an NVIDIA device
//   - xla:cpu: a CPU PJRT plugin is installed (`make xla` installs one)
//   - onnx:cpu: the program is built with -tags=onnx, and ONNX Runtime is installed (`make onnxruntime`)
//   - go:ops_sequential: always available
//
// Open never uses the network. A configuration is a backend's name and its options, as "xla:cpu,devices=2" or
// "xla:cuda,tf32=false". Programs built with -tags=noxla or without cgo have no XLA.
func Open(options ...Option) (compute.Backend, error) { return backend.Open(options...) }

// Option is an option of [Open].
type Option = backend.Option

// Config overrides GOMLX_BACKEND unless config is empty.
func Config(config string) Option { return backend.Config(config) }

// Devices sets the number of XLA devices on a CPU, default 1. Accelerators always use all devices.
func Devices(n int) Option { return backend.Devices(n) }

// Log sets where the line about the chosen backend is written, default [os.Stderr].
func Log(w io.Writer) Option { return backend.Log(w) }

// KeepMemory makes XLA on a CPU reuse the memory of its temporaries; otherwise they are mapped and unmapped in every
// call, a third of the time of a small model. Call it first in main, before opening or printing anything: it
// re-executes the program in the same process, with GLIBC_TUNABLES set. Freed memory stays with the process.
// WEPE_KEEP_MEMORY=0 or a user's GLIBC_TUNABLES disables it.
func KeepMemory() { backend.KeepMemory() }
