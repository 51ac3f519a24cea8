// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"

	"github.com/wepe-go/wepe/data"
)

// ModelFn returns the network as a model function of GoMLX's train.NewTrainer: the logits [batch, classes] of the
// batches of a [data.Loader], whose augmentation becomes part of the graph.
//
//	m, err := finetune.Open(backend, "vit-tiny-augreg")
//	batches := data.Batches(images, 32, m.Recipe.Augment, seed)
//	trainer := train.NewTrainer(backend, m.Store(), m.ModelFn(), loss.SparseCategoricalCrossEntropyLogits,
//		&engine.Optimizer{LayerDecay: 0.75, Schedule: engine.Schedule{Peak: 1e-3}}, nil, nil)
//
// Its programs and those of Evaluate and Predict share the variables of Store.
func (m *Model) ModelFn() train.ModelFn {
	return func(scope *model.Scope, spec any, inputs []*Node) []*Node {
		return []*Node{m.logits(scope.In(modelScope), data.BatchImages(spec, inputs), inputs[1:])}
	}
}

// Store returns the store with the variables of the model, below scope "vit", and the hyperparameters
// of its encoding.
func (m *Model) Store() *model.Store { return m.store }
