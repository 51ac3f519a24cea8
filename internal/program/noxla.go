// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build noxla || !((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64))

package program

func xlaPlugins() []string { return nil }

func allowXLAInstall(bool) {}
