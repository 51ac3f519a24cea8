// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !(linux && amd64 && onnx)

package onnx

import "github.com/gomlx/gomlx/core/tensors"

// File is never made.
type File struct{}

// Open returns ErrNone.
func Open(string) (*File, error) { return nil, ErrNone }

// Run is never called.
func (*File) Run(*tensors.Tensor) ([]float32, error) { return nil, ErrNone }

// Finalize is never called.
func (*File) Finalize() {}
