// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/finetune/data"
)

// pixels is a data set as input of a program.
type pixels struct {
	set      *data.Set
	resident *tensors.Tensor // the whole set, nil where only the pictures of a batch are passed
}

// upload brings a set to the device, once. ONNX Runtime copies its inputs at every call, so there the rows of each
// batch are picked on the host, which is the device.
func (m *Model) upload(set *data.Set) pixels {
	if m.backend.Name() == "onnxruntime" {
		return pixels{set: set}
	}
	return pixels{set: set, resident: set.Tensor()}
}

// call runs a program on one plan. The pixels stay, the rest is freed.
func (p pixels) call(program *model.Exec, plan *data.Plan, scalars []float32) ([]*tensors.Tensor, error) {
	source := p.resident
	switch {
	case plan.Shown != nil:
		source = plan.Shown.Tensor()
		defer func() { _ = source.FinalizeAll() }()
	case source == nil:
		rows := make([]int, len(plan.Indices))
		for k, row := range plan.Indices {
			rows[k], plan.Indices[k] = int(row), int64(k)
		}
		source = p.set.Subset(rows).Tensor()
		defer func() { _ = source.FinalizeAll() }()
	}
	inputs := []any{source}
	for _, t := range plan.Tensors() {
		inputs = append(inputs, t)
		defer func() { _ = t.FinalizeAll() }()
	}
	if scalars != nil {
		inputs = append(inputs, scalars)
	}
	return program.Call(inputs...)
}

// finalize frees what is on the device.
func (p pixels) finalize() {
	if p.resident != nil {
		_ = p.resident.FinalizeAll()
	}
}
