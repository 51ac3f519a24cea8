// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"context"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/data"
)

// pixels is a dataset as input of a program.
type pixels struct {
	set      data.Source
	resident []*tensors.Tensor // the whole set, for each device; nil where only the images of a batch are passed
	devices  devices
}

// upload brings a set to the device, once. ONNX Runtime copies its inputs at every call, so there the rows of each
// batch are picked on the host, which is the device. Those of a stream are read batch by batch.
func (m *Model) upload(set data.Source) pixels {
	p := pixels{set: set, devices: m.devices}
	if held, ok := set.(*data.Memory); ok && m.backend.Name() != "onnxruntime" {
		for range m.devices.count() {
			p.resident = append(p.resident, held.Tensor())
		}
	}
	return p
}

// call runs a program on one plan. The pixels stay, the rest is freed. Shown are the images of the plan's rows where
// they come from a feed, nil else.
func (p pixels) call(program *model.Exec, plan *data.Plan, shown *data.Memory, scalars []float32) ([]*tensors.Tensor,
	error) {
	source := p.resident
	if source == nil {
		rows := make([]int, len(plan.Indices))
		for k, row := range plan.Indices {
			rows[k], plan.Indices[k] = int(row), int64(k)
		}
		if shown == nil {
			var err error
			if shown, err = p.set.Load(context.Background(), rows); err != nil {
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
	return p.devices.call(program, source, inputs...)
}

// finalize frees what is on the device.
func (p pixels) finalize() {
	for _, t := range p.resident {
		_ = t.FinalizeAll()
	}
}
