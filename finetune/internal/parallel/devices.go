// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package parallel shares the batches of a training among the devices of a backend and the processes of a group.
package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/core/tensors/dtensor"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/data"
)

// Devices distributes programs over the devices of a backend: data parallel by GoMLX's AutoSharding. The plan of a
// batch is split by images; weights and pixels are replicated. The graph is the graph of one device, so means, mixup
// partners and batch normalization refer to the whole batch, and the compiler inserts the communication. The zero value
// is one device.
type Devices struct {
	Everywhere *distributed.ShardingSpec // the placement of what every device has, nil for one device
	divided    *distributed.ShardingSpec
}

// NewDevices takes the first n devices for micro-batches of part images or, if n is 0, the largest number that divides
// them equally.
func NewDevices(backend compute.Backend, n, part int) (d Devices, err error) {
	exist := backend.NumDevices()
	switch {
	case n < 0:
		return d, fmt.Errorf("training: %d devices requested: request 1 or more, or 0 for all", n)
	case n > exist:
		return d, fmt.Errorf("training: %d devices requested, but backend %s has %d: request at most %d, or 0 for all", n,
			backend.Name(), exist, exist)
	case n > 0 && part%n != 0:
		return d, fmt.Errorf("training: %d devices cannot share micro-batches of %d images (batch_size / grad_accum_steps) "+
			"equally: set batch_size to a multiple of %d · grad_accum_steps, or use fewer devices", n, part, n)
	case n == 0:
		n = exist
		// XLA splits a CPU into any number of devices; they are no faster than one.
		if exist > 1 && strings.Contains(strings.ToLower(backend.DeviceDescription(0)), "cpu") {
			n = 1
		}
		for part%n != 0 {
			n--
		}
	}
	if n == 1 {
		return d, nil
	}
	mesh, err := distributed.NewDeviceMesh([]int{n}, []string{"data"})
	if err != nil {
		return d, err
	}
	d.Everywhere = distributed.NewReplicatedShardingSpec(mesh)
	d.divided, err = distributed.NewShardingSpec(mesh, distributed.AxisSpec{"data"})
	return d, err
}

// Count returns the number of devices.
func (d Devices) Count() int {
	if d.Everywhere == nil {
		return 1
	}
	return d.Everywhere.Mesh.NumDevices()
}

// Fill rounds a number of images up to a multiple of the number of devices.
func (d Devices) Fill(images int) int { return (images + d.Count() - 1) / d.Count() * d.Count() }

// specs returns the placement of a program's inputs: pixels, plan, scalars.
func (d Devices) specs() []*distributed.ShardingSpec {
	specs := slices.Repeat([]*distributed.ShardingSpec{d.divided}, 1+data.PlanLen+1)
	for _, everywhere := range []int{0, 1 + data.PlanMix, 1 + data.PlanLen} {
		specs[everywhere] = d.Everywhere
	}
	return specs
}

// Spread distributes a program over the devices, before it is compiled. Its outputs are replicated.
func (d Devices) Spread(program *model.Exec) {
	if d.Count() > 1 {
		program.AutoSharding(d.Everywhere.Mesh).WithInputShardingSpecs(d.specs()...).WithOutputShardingSpecs(d.Everywhere)
	}
}

// Call runs a program, on one device if it was not distributed. It keeps the pixels, one tensor or one for each device,
// and frees the other inputs, which are on the host.
func (d Devices) Call(program *model.Exec, pixels []*tensors.Tensor, others ...*tensors.Tensor) (
	outputs []*tensors.Tensor, err error) {
	var freed []*tensors.Tensor
	defer func() {
		for _, t := range freed {
			_ = t.FinalizeAll()
		}
	}()
	freed = append(freed, others...)
	if program.NumDevices() == 1 {
		inputs := []any{pixels[0]}
		for _, t := range others {
			inputs = append(inputs, t)
		}
		return program.Call(inputs...)
	}
	shard := func(i int, t *tensors.Tensor) (any, error) {
		shards, err := dtensor.ShardTensor(d.specs()[i], t)
		if err != nil {
			return nil, err
		}
		freed = append(freed, shards.Shards()...)
		return shards, nil
	}
	inputs := make([]any, 1+len(others))
	if len(pixels) > 1 {
		inputs[0], err = dtensor.NewTensor(d.Everywhere, pixels)
	} else {
		inputs[0], err = shard(0, pixels[0])
	}
	for i, t := range others {
		if err == nil {
			inputs[1+i], err = shard(1+i, t)
		}
	}
	if err == nil {
		outputs, err = program.Call(inputs...)
	}
	if err != nil {
		return nil, err
	}
	each := len(outputs) / d.Count()
	for _, t := range outputs[each:] {
		_ = t.FinalizeAll()
	}
	return outputs[:each], nil
}
