// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build libjpeg

package data

func init() { withLibjpeg = true }
