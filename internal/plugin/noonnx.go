// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !(linux && amd64 && onnx)

package plugin

func ONNXRuntime() string { return "" }
