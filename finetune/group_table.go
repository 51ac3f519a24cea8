// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"strings"
)

// groupsLine says in a line of the log how each group of the model's variables trains, once it has been built: its
// factor of the learning rate, on top of which comes layer-wise decay, and the weight decay of those that it reaches.
//
//	weights ×1 (13 variables, 2256 numbers, decay 0.05), table frozen (1 variables, 84 numbers)
func (m *Model) groupsLine() string {
	o := m.Recipe.Optimizer
	var parts []string
	for _, name := range groups {
		variables, numbers, how, decay := 0, 0, "frozen", ""
		for v := range m.variables() {
			group, decays := groupOf(v.Path())
			if !v.Trainable || group != name {
				continue
			}
			variables++
			numbers += v.Shape().Size()
			factor := Optimizer{LearningRates: o.LearningRates}.factor(v.Path(), 0)
			if factor == 0 || !m.Recipe.trains(v.Path()) {
				continue
			}
			how = fmt.Sprintf("×%g", factor)
			if (decays || o.DecayAll) && o.WeightDecay > 0 {
				decay = fmt.Sprintf(", decay %g", o.WeightDecay)
			}
		}
		if variables > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%d variables, %d numbers%s)", name, how, variables, numbers, decay))
		}
	}
	line := strings.Join(parts, ", ")
	if o.LayerDecay > 0 {
		line += fmt.Sprintf(", each layer ×%g of the one above", o.LayerDecay)
	}
	return line
}
