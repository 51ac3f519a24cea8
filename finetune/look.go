// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

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
	augment := m.evalAugment()
	program, err := model.NewExec(m.backend, m.store, func(scope *model.Scope, inputs []*Node) []*Node {
		scope.Store().SetTraining(inputs[0].Graph(), false)
		trace := m.Recipe.Model.Trace(scope.In(modelScope), augment.Images(inputs[0], inputs[1:1+data.PlanLen]), true)
		var outputs []*Node
		for _, node := range choose(trace) {
			outputs = append(outputs, ConvertDType(node, dtypes.Float32))
		}
		return append(outputs, trace.Logits)
	})
	if err != nil {
		return err
	}
	defer program.Finalize()
	p := m.upload(set)
	defer p.finalize()
	return m.batches(p, program, images, func(first, n int, outputs []*tensors.Tensor) error {
		values := make([][]float32, len(outputs))
		for k, output := range outputs {
			flat, err := tensors.CopyFlatData[float32](output)
			if err != nil {
				return err
			}
			values[k] = flat[:len(flat)/output.Shape().Dim(0)*n]
		}
		return see(first, values)
	})
}
