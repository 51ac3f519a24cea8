// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build onnx

package data

import _ "github.com/gomlx/compute-onnx" // registers "onnx" for GOMLX_BACKEND=onnx:cpu go test -tags=onnx
