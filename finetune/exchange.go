// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// exchange is what the processes of a group tell each other in a step.
type exchange struct {
	Group
	parts int       // of a batch
	sent  []float32 // gradients and losses, kept for the next step
}

// own returns the first part of a batch that this process computes, and the first that it does not.
func (e *exchange) own() (first, end int) {
	each := e.parts / e.Size()
	return e.Rank() * each, (e.Rank() + 1) * each
}

// sum adds up over the processes what each has accumulated, and returns the losses of all parts of the batch. What is
// sent are the trained numbers and those losses, once.
func (e *exchange) sum(store *model.Store, losses []*tensors.Tensor) ([]*tensors.Tensor, error) {
	sums := accumulators(store)
	e.sent = e.sent[:0]
	for _, v := range sums {
		value, err := v.Value()
		if err != nil {
			return nil, err
		}
		if err := value.ConstFlatData(func(flat any) { e.sent = append(e.sent, flat.([]float32)...) }); err != nil {
			return nil, err
		}
	}
	e.sent = append(e.sent, make([]float32, e.parts)...)
	first, _ := e.own()
	own := e.sent[len(e.sent)-e.parts+first:]
	for i, l := range losses {
		own[i] = tensors.ToScalar[float32](l)
		_ = l.FinalizeAll()
	}
	if err := e.Sum(e.sent); err != nil {
		return nil, err
	}
	rest := e.sent
	for _, v := range sums {
		n := v.Shape().Size()
		value := tensors.FromFlatDataAndDimensions(rest[:n], v.Shape().Dimensions...)
		if err := v.SetValue(value); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	all := make([]*tensors.Tensor, e.parts)
	for i, l := range rest {
		all[i] = tensors.FromScalar(l)
	}
	return all, nil
}
