// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build unix && !(linux && cgo && !noxla)

package backend

const tunables = "" // XLA's plugins are loaded by cgo, and only glibc has tunables
