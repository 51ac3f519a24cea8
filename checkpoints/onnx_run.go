// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package checkpoints

import (
	"bytes"
	"io"
	"os"

	"github.com/gomlx/compute"
	onnx "github.com/gomlx/compute-onnx"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pkg/errors"
)

// saveONNX writes a graph of one input, whose first axis is the batch, for any batch size. Names are as in Hugging
// Face's own exports, so that transformers.js and others can run it.
func saveONNX(store *model.Store, build func(*model.Scope, *Node) *Node, input shapes.Shape, w io.Writer) error {
	compiled := func(batch int, do func(*onnx.Backend, *onnx.Executable) error) error {
		opened, err := compute.NewWithConfig("onnx:cpu")
		if err != nil {
			return err
		}
		defer opened.Finalize()
		backend := opened.(*onnx.Backend)
		backend.SetKeepModelProto(true)
		exec, err := model.NewExec(backend, store.WithVariableAsConst(true), build)
		if err != nil {
			return err
		}
		defer exec.Finalize()
		shape := input.Clone()
		shape.Dimensions[0] = batch
		graph, err := exec.Compile(shape)
		if err != nil {
			return err
		}
		return do(backend, graph.Executable().(*onnx.Executable))
	}
	const size, other = 1009, 1013 // the binding shares equal constants: sizes that no other dimension has
	var constants map[string][]int64
	err := compiled(other, func(_ *onnx.Backend, e *onnx.Executable) error {
		constants = shapeConstants(e.ModelProto())
		return nil
	})
	if err != nil {
		return err
	}
	return compiled(size, func(b *onnx.Backend, e *onnx.Executable) error {
		if err := freeBatch(e.ModelProto(), size, constants, other); err != nil {
			return err
		}
		return onnx.SaveModel(b, e, w, []string{"pixel_values"}, []string{"logits"})
	})
}

// runONNX runs a file with one input and one output.
func runONNX(file string, input *tensors.Tensor) ([]float32, error) {
	backend, err := compute.NewWithConfig("onnx:cpu")
	if err != nil {
		return nil, err
	}
	defer backend.Finalize()
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if raw, err = fixBatch(raw, input.Shape().Dim(0)); err != nil {
		return nil, err
	}
	graph, err := onnx.LoadModel(backend, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	defer graph.Finalize()
	if names, _ := graph.Inputs(); len(names) != 1 || len(graph.Outputs()) != 1 {
		return nil, errors.Errorf("%d inputs and %d outputs, want one of each", len(names), len(graph.Outputs()))
	}
	buffer, err := input.Buffer(backend, 0)
	if err != nil {
		return nil, err
	}
	out, err := graph.Execute([]compute.Buffer{buffer}, []bool{false}, 0)
	if err != nil {
		return nil, err
	}
	logits, err := tensors.FromBuffer(out[0])
	if err != nil {
		return nil, err
	}
	return tensors.CopyFlatData[float32](logits)
}
