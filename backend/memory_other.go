// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !linux || !cgo || noxla

package backend

// KeepMemory does nothing here: see the version for Linux.
func KeepMemory() {}
