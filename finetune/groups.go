// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"strings"

	"github.com/wepe-go/wepe/finetune/engine"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// Paths in the store of a model. They are a file format.
const (
	modelScope   = weight.ModelScope
	headPath     = vit.ScopeHead + "/"     // below the model's scope
	positionPath = vit.ScopePosition + "/" // likewise
	tablePath    = vit.PathTable           // the learned table of positions
)

// inNetwork reports whether a variable belongs to the network.
func inNetwork(variable string) bool { return strings.HasPrefix(variable, "/"+modelScope+"/") }

// below returns the path of a network variable below the network's scope.
func below(variable string) string { return strings.TrimPrefix(variable, "/"+modelScope+"/") }

// groupsLine returns a log line on how each group of the model's variables is trained, once it has been built: its
// factor of the learning rate, before layer-wise decay, and its weight decay.
//
//	weights ×1 (13 variables, 2256 numbers, decay 0.05), table frozen (1 variables, 84 numbers)
func (m *Model) groupsLine() string {
	o := m.Recipe.Optimizer
	var parts []string
	for _, name := range engine.Groups {
		variables, numbers, how, decay := 0, 0, "frozen", ""
		for v := range m.store.IterVariables() {
			group, decays := engine.GroupOf(v.Path())
			if !v.Trainable || group != name {
				continue
			}
			variables++
			numbers += v.Shape().Size()
			factor := engine.Optimizer{LearningRates: o.LearningRates}.Factor(v.Path(), 0)
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
