// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/vit"
)

// With returns a model of the same recipe with changes, as of Recipe.Set, drawn from the same seed.
func (m *Model) With(settings string) (*Model, error) {
	r, err := m.Recipe.Set(settings)
	if err != nil {
		return nil, err
	}
	return newModel(m.backend, r, m.Classes, m.seed)
}

// Seed is the seed of the run that trained the model.
func (m *Model) Seed() int64 { return m.seed }

// Look runs the model on a set, so many images at a time, and shows what happens inside: see is called with the number
// of the first image and the values, flat float32 [images, …], of the nodes that choose picks from the trace, the
// logits [images, classes] after them. Nothing is kept between calls. Attention is computed with its weights in
// memory, not by the fused operation of backends that have one: slower and, in 16-bit types, rounded elsewhere.
func (m *Model) Look(set data.Source, images int, choose func(*vit.Trace) []*Node,
	see func(first int, values [][]float32) error) error {
	if err := m.Recipe.plainViT("shows what happens inside"); err != nil {
		return err
	}
	if err := m.Recipe.oneSize("a look inside"); err != nil {
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
