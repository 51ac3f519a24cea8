// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"strings"
)

// trainedGroup is how one group of a model's variables trains.
type trainedGroup struct {
	Name      string
	Variables int
	Numbers   int     // in all its variables
	Rate      float64 // factor of the learning rate, 0 if frozen; layer-wise decay comes on top
	Decay     float64 // weight decay of those it reaches
}

// groups returns the groups that the model has variables of, once it has been built.
func (m *Model) groups() []trainedGroup {
	byName := map[string]*trainedGroup{}
	o := m.Recipe.Optimizer
	for v := range m.variables() {
		if !v.Trainable {
			continue
		}
		name, decays := groupOf(v.Path())
		g := byName[name]
		if g == nil {
			g = &trainedGroup{Name: name}
			if m.Recipe.trains(v.Path()) {
				g.Rate = Optimizer{LearningRates: o.LearningRates}.factor(v.Path(), 0)
			}
			byName[name] = g
		}
		g.Variables++
		g.Numbers += v.Shape().Size()
		if (decays || o.DecayAll) && g.Rate > 0 {
			g.Decay = o.WeightDecay
		}
	}
	var out []trainedGroup
	for _, name := range groups {
		if g := byName[name]; g != nil {
			out = append(out, *g)
		}
	}
	return out
}

// String is one group in a line of the log, as in "head ×10 (2 variables, 9700 numbers, decay 0.05)".
func (g trainedGroup) String() string {
	how, decay := fmt.Sprintf("×%g", g.Rate), ""
	if g.Rate == 0 {
		how = "frozen"
	}
	if g.Decay > 0 {
		decay = fmt.Sprintf(", decay %g", g.Decay)
	}
	return fmt.Sprintf("%s %s (%d variables, %d numbers%s)", g.Name, how, g.Variables, g.Numbers, decay)
}

// groupsLine is the table of groups in one line.
func (m *Model) groupsLine() string {
	var parts []string
	for _, g := range m.groups() {
		parts = append(parts, g.String())
	}
	line := strings.Join(parts, ", ")
	if decay := m.Recipe.Optimizer.LayerDecay; decay > 0 {
		line += fmt.Sprintf(", each layer ×%g of the one above", decay)
	}
	return line
}
