// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package onnx

import (
	"bytes"
	"os"

	"github.com/gomlx/compute"
	binding "github.com/gomlx/compute-onnx"
	pb "github.com/gomlx/compute-onnx/support/protos"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
)

// File is a file with one input and one output, on ONNX Runtime.
type File struct {
	path    string
	backend compute.Backend
	sizes   map[int]compute.Executable // by batch size, loaded when first used
}

// Open prepares a file, which Run reads. It returns ErrNone in a program without ONNX Runtime.
func Open(path string) (*File, error) {
	backend, err := compute.NewWithConfig("onnx:cpu")
	if err != nil {
		return nil, errors.WithMessage(ErrNone, err.Error())
	}
	return &File{path, backend, map[int]compute.Executable{}}, nil
}

// Finalize frees the memory of the file.
func (f *File) Finalize() {
	for _, graph := range f.sizes {
		graph.Finalize()
	}
	f.backend.Finalize()
}

// graph returns the graph for a batch size.
func (f *File) graph(size int) (compute.Executable, error) {
	if known := f.sizes[size]; known != nil {
		return known, nil
	}
	raw, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	if raw, err = fixBatch(raw, size); err != nil {
		return nil, err
	}
	graph, err := binding.LoadModel(f.backend, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	if names, _ := graph.Inputs(); len(names) != 1 || len(graph.Outputs()) != 1 {
		graph.Finalize()
		return nil, errors.Errorf("%d inputs and %d outputs, want one of each", len(names), len(graph.Outputs()))
	}
	f.sizes[size] = graph
	return graph, nil
}

// Run computes the output for one batch.
func (f *File) Run(input *tensors.Tensor) ([]float32, error) {
	graph, err := f.graph(input.Shape().Dim(0))
	if err != nil {
		return nil, err
	}
	buffer, err := input.Buffer(f.backend, 0)
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

// fixBatch fixes the batch size of a file: the binding panics at a size that is not a number.
func fixBatch(raw []byte, size int) ([]byte, error) {
	var m pb.ModelProto
	if err := proto.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	for _, values := range [][]*pb.ValueInfoProto{m.GetGraph().GetInput(), m.GetGraph().GetOutput()} {
		for _, v := range values {
			dims := v.GetType().GetTensorType().GetShape().GetDim()
			if len(dims) > 0 && dims[0].GetDimValue() <= 0 {
				dims[0].Value = &pb.TensorShapeProto_Dimension_DimValue{DimValue: int64(size)}
			}
		}
	}
	return proto.Marshal(&m)
}
