// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package checkpoints

import (
	"io"
	"os"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/onnx" // registers its backend
)

// saveONNX compiles the graph and writes it, under the names of Hugging Face's own exports: what runs those,
// transformers.js say, runs it too.
func saveONNX(store *model.Store, build func(*model.Scope, *Node) *Node, input shapes.Shape, w io.Writer) error {
	backend, err := compute.NewWithConfig("onnx:cpu")
	if err != nil {
		return err
	}
	defer backend.Finalize()
	exec, err := model.NewExec(backend, store, build)
	if err != nil {
		return err
	}
	defer exec.Finalize()
	return onnx.Save(backend, exec, w, []shapes.Shape{input}, []string{"pixel_values"}, []string{"logits"})
}

// runONNX runs a file of one input and one output.
func runONNX(file string, input *tensors.Tensor) ([]float32, error) {
	backend, err := compute.NewWithConfig("onnx:cpu")
	if err != nil {
		return nil, err
	}
	defer backend.Finalize()
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	graph, err := onnx.Load(backend, f)
	if err != nil {
		return nil, err
	}
	defer graph.Finalize()
	out, err := graph.Call(input)
	if err != nil {
		return nil, err
	}
	return tensors.CopyFlatData[float32](out[0])
}
