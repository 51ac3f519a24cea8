// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cli

// CPUTime is not known here.
var CPUTime func() float64
