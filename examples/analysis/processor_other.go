// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

// processorTime is not known here: without it time is that of the clock.
var processorTime func() float64
