// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build !(linux && amd64 && onnx)

package checkpoints

import (
	"io"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

func saveONNX(*model.Store, func(*model.Scope, *Node) *Node, shapes.Shape, io.Writer) error {
	return errNoONNX
}

func runONNX(string, *tensors.Tensor) ([]float32, error) { return nil, errNoONNX }
