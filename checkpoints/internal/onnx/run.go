// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package onnx

import (
	"cmp"
	"os"

	"github.com/gomlx/compute"
	binding "github.com/gomlx/compute-onnx"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/pkg/errors"
)

// File is a file with one input and one output, on ONNX Runtime.
type File struct {
	path    string
	backend compute.Backend
	graph   compute.Executable // loaded when first used
}

// Open prepares a file, which Run reads. It returns ErrNone in a program without ONNX Runtime.
func Open(path string) (*File, error) {
	backend, err := compute.NewWithConfig("onnx:cpu")
	if err != nil {
		return nil, errors.WithMessage(ErrNone, err.Error())
	}
	return &File{path: path, backend: backend}, nil
}

// Finalize frees the memory of the file.
func (f *File) Finalize() {
	if f.graph != nil {
		f.graph.Finalize()
	}
	f.backend.Finalize()
}

// load reads the file.
func (f *File) load() error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	var graph compute.Executable
	panicked := exceptions.TryCatch[error](func() { graph, err = binding.LoadModel(f.backend, file) })
	if err = cmp.Or(panicked, err); err != nil { // it panics at a size that has no number and no name
		return err
	}
	if names, _ := graph.Inputs(); len(names) != 1 || len(graph.Outputs()) != 1 {
		graph.Finalize()
		return errors.Errorf("%d inputs and %d outputs, want one of each", len(names), len(graph.Outputs()))
	}
	f.graph = graph
	return nil
}

// Run computes the output for one batch, and frees the input: its buffer is ONNX Runtime's, without a finalizer.
func (f *File) Run(input *tensors.Tensor) ([]float32, error) {
	if f.graph == nil {
		if err := f.load(); err != nil {
			return nil, err
		}
	}
	defer func() { _ = input.FinalizeAll() }()
	buffer, err := input.Buffer(f.backend, 0)
	if err != nil {
		return nil, err
	}
	out, err := f.graph.Execute([]compute.Buffer{buffer}, []bool{false}, 0)
	if err != nil {
		return nil, err
	}
	logits, err := tensors.FromBuffer(out[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = logits.FinalizeAll() }()
	return tensors.CopyFlatData[float32](logits)
}
