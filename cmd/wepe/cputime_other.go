// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

var cpuTime func() float64
