// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !(linux && amd64 && onnx)

package onnx

import "github.com/gomlx/gomlx/core/tensors"

// Run returns ErrNone.
func Run(string, *tensors.Tensor) ([]float32, error) { return nil, ErrNone }
