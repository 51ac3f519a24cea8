// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Groups: every trainable variable belongs to exactly one. The backbone is the first three.
const (
	GroupWeights  = "weights"  // matrices of the backbone: with the head's the only ones that weight decay pulls
	GroupVectors  = "vectors"  // biases, norms and the class token
	GroupTable    = "table"    // the learned positions, pretrained ones too
	GroupPosition = "position" // all else below a scope named "position", the WePE scalars among them
	GroupGate     = "gate"     // the raw variable of λ, between the table and the encoding
	GroupHead     = "head"     // the classifier, its matrix decayed like GroupWeights
)

// FreezeBackbone is GroupWeights, GroupVectors and GroupTable in one word, for Recipe.Freeze.
const FreezeBackbone = "backbone"

var groups = []string{GroupWeights, GroupVectors, GroupTable, GroupPosition, GroupGate, GroupHead}

// GroupOf names the group of a variable and says whether weight decay reaches it by default.
func GroupOf(variable string) (group string, decays bool) {
	matrix := path.Base(variable) == "weights"
	switch {
	case strings.HasSuffix(variable, "/"+tablePath):
		return GroupTable, false
	case strings.HasSuffix(variable, "/position/gate_raw"):
		return GroupGate, false
	case strings.Contains(variable, "/position/"):
		return GroupPosition, false
	case strings.Contains(variable, "/"+headPath):
		return GroupHead, matrix
	case matrix:
		return GroupWeights, true
	default:
		return GroupVectors, false
	}
}

// layerOf numbers a variable for layer-wise decay, as BEiT (https://arxiv.org/abs/2106.08254) does: 0 for what makes
// the tokens (patch projection, class token, pretrained table), i+1 for block i, depth+1 for the final norm and the
// head. An encoding and its gate are as new as the head and as fast, wherever their variables are.
func layerOf(variable string, depth int) int {
	switch group, _ := GroupOf(variable); group {
	case GroupPosition, GroupGate, GroupHead:
		return depth + 1
	case GroupTable:
		return 0
	}
	if _, block, in := strings.Cut(variable, "/block_"); in {
		number, _, _ := strings.Cut(block, "/")
		if i, err := strconv.Atoi(number); err == nil {
			return i + 1
		}
	}
	if strings.HasPrefix(variable, "/"+modelScope+"/norm/") {
		return depth + 1
	}
	return 0
}

// factor is what the learning rate of a variable is multiplied with, that of its group and that of its layer:
//
//	LearningRates[group] · LayerDecay^(depth+1-layer)
func (o Optimizer) factor(variable string, depth int) float64 {
	group, _ := GroupOf(variable)
	factor, named := o.LearningRates[group]
	if !named {
		factor = 1
	}
	if o.LayerDecay > 0 {
		factor *= math.Pow(o.LayerDecay, float64(depth+1-layerOf(variable, depth)))
	}
	return factor
}

// frozen lists the groups that Freeze names.
func (r Recipe) frozen() (names []string, err error) {
	for _, name := range strings.FieldsFunc(r.Freeze, func(c rune) bool { return c == ',' }) {
		switch name = strings.TrimSpace(name); {
		case name == FreezeBackbone:
			names = append(names, GroupWeights, GroupVectors, GroupTable)
		case slices.Contains(groups, name):
			names = append(names, name)
		default:
			return nil, fmt.Errorf("finetune: freeze names the unknown group %q: want some of %s, %s", name,
				FreezeBackbone, strings.Join(groups, ", "))
		}
	}
	return names, nil
}

// trains says whether a variable is to be trained.
func (r Recipe) trains(variable string) bool {
	group, _ := GroupOf(variable)
	frozen, err := r.frozen()
	return err == nil && !slices.Contains(frozen, group)
}

// Group is how one group of a model's variables trains.
type Group struct {
	Name      string
	Variables int
	Numbers   int     // in all its variables
	Rate      float64 // factor of the learning rate, 0 if frozen; layer-wise decay comes on top
	Decay     float64 // weight decay of those it reaches
}

// Groups returns the groups that the model has variables of, once it has been built.
func (m *Model) Groups() []Group {
	byName := map[string]*Group{}
	o := m.Recipe.Optimizer
	for v := range m.store.IterVariables() {
		if !v.Trainable || !strings.HasPrefix(v.Path(), "/"+modelScope+"/") {
			continue
		}
		name, decays := GroupOf(v.Path())
		g := byName[name]
		if g == nil {
			g = &Group{Name: name}
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
	var out []Group
	for _, name := range groups {
		if g := byName[name]; g != nil {
			out = append(out, *g)
		}
	}
	return out
}

// String is one group in a line of the log, as in "head ×10 (2 variables, 9700 numbers, decay 0.05)".
func (g Group) String() string {
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
	for _, g := range m.Groups() {
		parts = append(parts, g.String())
	}
	line := strings.Join(parts, ", ")
	if decay := m.Recipe.Optimizer.LayerDecay; decay > 0 {
		line += fmt.Sprintf(", each layer ×%g of the one above", decay)
	}
	return line
}
