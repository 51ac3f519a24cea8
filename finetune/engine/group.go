// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

// Group is the set of processes that make one run together. Each of n computes 1/n of the GradAccumSteps
// micro-batches of a batch; the gradients are summed, every process makes the same optimizer step, and the first writes
// files. Results depend on GradAccumSteps, not on the number of processes.
type Group interface {
	Rank() int // of this process, from 0
	Size() int
	// SumFloat32 replaces values by their sums over the processes, the same bits in each. All call it with equally many
	// values.
	SumFloat32(values []float32) error
	// Gather returns the messages of all processes, by rank.
	Gather(message []byte) ([][]byte, error)
}

// own returns the range of micro-batches that this process computes.
func (t *Trainer) own() (first, end int) {
	each := t.GradAccumSteps / t.Group.Size()
	return t.Group.Rank() * each, (t.Group.Rank() + 1) * each
}

// sum sums the accumulated gradients over the processes, and returns the losses [n] of all micro-batches. It exchanges
// gradients and losses in one call.
func (t *Trainer) sum(losses []*tensors.Tensor) ([]*tensors.Tensor, error) {
	sums, n := accumulators(t.Store), len(t.LossNames)
	t.sent = t.sent[:0]
	for _, v := range sums {
		value, err := v.Value()
		if err != nil {
			return nil, err
		}
		if err := value.ConstFlatData(func(flat any) { t.sent = append(t.sent, flat.([]float32)...) }); err != nil {
			return nil, err
		}
	}
	first, _ := t.own()
	own := len(t.sent) + first*n
	t.sent = append(t.sent, make([]float32, t.GradAccumSteps*n)...)
	for i, l := range losses {
		values, err := tensors.CopyFlatData[float32](l)
		if err != nil {
			return nil, err
		}
		copy(t.sent[own+i*n:], values)
		_ = l.FinalizeAll()
	}
	if err := t.Group.SumFloat32(t.sent); err != nil {
		return nil, err
	}
	rest := t.sent
	for _, v := range sums {
		size := v.Shape().Size()
		value := tensors.FromFlatDataAndDimensions(rest[:size], v.Shape().Dimensions...)
		if err := v.SetValue(value); err != nil {
			return nil, err
		}
		rest = rest[size:]
	}
	all := make([]*tensors.Tensor, t.GradAccumSteps)
	for i := range all {
		all[i] = tensors.FromFlatDataAndDimensions(rest[i*n:(i+1)*n], n)
	}
	return all, nil
}

// accumulators returns the sums of gradients, by path.
func accumulators(store *model.Store) []*model.Variable {
	return weight.Variables(store, func(v *model.Variable) bool { return temporary(v.Path()) })
}
