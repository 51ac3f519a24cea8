// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"context"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune/internal/parallel"
)

// pixels is a dataset as input of a program.
type pixels struct {
	set      data.Dataset
	resident []*tensors.Tensor // the whole dataset, for each device; unused if the images of a batch are passed
	devices  parallel.Devices
}

// upload transfers a dataset to the device, once. ONNX Runtime copies its inputs at every call, so for it the rows of
// each batch are selected on the host, which is its device. Streams are read batch by batch.
func (m *Model) upload(set data.Dataset) pixels {
	p := pixels{set: set, devices: m.devices}
	if held, ok := set.(*data.InMemory); ok && m.backend.Name() != "onnxruntime" {
		for range m.devices.Count() {
			p.resident = append(p.resident, held.Tensor())
		}
	}
	return p
}

// call runs a program on one plan. It keeps the pixels and frees other inputs. shown are the images of the plan's rows
// if they come from a loader, otherwise nil.
func (p pixels) call(program *model.Exec, plan *data.Plan, shown *data.InMemory, scalars []float32) ([]*tensors.Tensor,
	error) {
	source := p.resident
	if shown != nil || source == nil {
		rows := make([]int, len(plan.Indices))
		for k, row := range plan.Indices {
			rows[k], plan.Indices[k] = int(row), int64(k)
		}
		if shown == nil {
			var err error
			if shown, err = data.Load(context.Background(), p.set, rows); err != nil {
				return nil, err
			}
		}
		source = []*tensors.Tensor{shown.Tensor()}
		defer func() { _ = source[0].FinalizeAll() }()
	}
	inputs := plan.Tensors()
	if scalars != nil {
		inputs = append(inputs, tensors.FromValue(scalars))
	}
	return p.devices.Call(program, source, inputs...)
}

// finalize frees memory on the device.
func (p pixels) finalize() {
	for _, t := range p.resident {
		_ = t.FinalizeAll()
	}
}
