// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !unix

package backend

// Tune does nothing here: see the version for Unix.
func Tune() {}
