// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build xla

package gomlxtest

import _ "github.com/gomlx/go-xla/compute/xla" // registers "xla"
