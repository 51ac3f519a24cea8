// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"iter"

	"github.com/gomlx/gomlx/ml/model"
)

// averages yields the variables of the network that have a moving average, and that: those that are trained.
func (m *Model) averages() iter.Seq2[*model.Variable, *model.Variable] {
	return func(yield func(v, average *model.Variable) bool) {
		for v := range m.variables() {
			if average := m.store.GetVariable(averageRoot + v.Path()); average != nil && !yield(v, average) {
				return
			}
		}
	}
}

// startAverage copies the weights into their averages.
func (m *Model) startAverage() error {
	for v, average := range m.averages() {
		weights, err := v.Value()
		if err != nil {
			return err
		}
		clone, err := weights.LocalClone()
		if err != nil {
			return err
		}
		if err := average.SetValue(clone); err != nil {
			return err
		}
	}
	return nil
}

// swapAverage exchanges the weights with their moving average; a second call undoes it. Without averages nothing
// happens.
func (m *Model) swapAverage() error {
	m.answered.set = nil
	for v, average := range m.averages() {
		weights, err := v.Value()
		if err != nil {
			return err
		}
		mean, err := average.Value()
		if err != nil {
			return err
		}
		if err := v.SetValuePreservingOld(mean); err != nil {
			return err
		}
		if err := average.SetValuePreservingOld(weights); err != nil {
			return err
		}
	}
	return nil
}
