// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !unix

package program

// ProcessorTime is not known here.
var ProcessorTime func() float64
