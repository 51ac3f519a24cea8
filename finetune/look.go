// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/vit"
)

// Reinitialized returns a newly initialized model with the recipe changed as by Recipe.Set, and the same seed.
func (m *Model) Reinitialized(settings string) (*Model, error) {
	r, err := m.Recipe.Set(settings)
	if err != nil {
		return nil, err
	}
	return newModel(m.backend, r, m.Classes, m.seed)
}

// Seed is the seed of the run that trained the model.
func (m *Model) Seed() int64 { return m.seed }

// Activations runs the model on a dataset, the given number of images at a time, and returns intermediate values: see
// is called with the index of the first image and the values, flat float32 [images, …], of the nodes that choose
// selects from the trace, followed by the logits [images, classes]. Fused attention is disabled: slower and, in 16-bit
// types, rounded differently.
func (m *Model) Activations(set data.Dataset, images int, choose func(*vit.Trace) []*Node,
	see func(first int, values [][]float32) error) error {
	if err := m.Recipe.plainViT("shows what happens inside"); err != nil {
		return err
	}
	if err := m.Recipe.oneSize("inspection"); err != nil {
		return err
	}
	program, err := m.traced(true, func(trace *vit.Trace) []*Node {
		outputs := choose(trace)
		for i, node := range outputs {
			outputs[i] = ConvertDType(node, dtypes.Float32)
		}
		return append(outputs, trace.Logits)
	})
	if err != nil {
		return err
	}
	defer program.Finalize()
	p := m.upload(set)
	defer p.finalize()
	return m.batches(p, program, images, see)
}
