// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// Groups: every trainable variable belongs to exactly one. The backbone is the first three.
const (
	groupWeights  = "weights"  // matrices of the backbone; with the head's, those that weight decay applies to
	groupVectors  = "vectors"  // biases, norms and the class token
	groupTable    = "table"    // the learned positions, also pretrained ones
	groupPosition = "position" // all other variables below "position", with the WePE scalars
	groupGate     = "gate"     // the raw variable of λ, between the table and the encoding
	groupHead     = "head"     // the classifier, its matrix decayed like groupWeights
	groupLoRA     = "lora"     // the factors of Recipe.LoRA, decayed too
)

// freezeBackbone stands for groupWeights, groupVectors and groupTable in Recipe.Freeze.
const freezeBackbone = "backbone"

var groups = []string{groupWeights, groupVectors, groupTable, groupPosition, groupGate, groupHead, groupLoRA}

// groupOf returns the group of a variable and reports whether weight decay applies to it by default.
func groupOf(variable string) (group string, decays bool) {
	matrix := path.Base(variable) == "weights"
	switch {
	case strings.HasPrefix(variable, weight.LowRankRoot+"/"):
		return groupLoRA, true
	case strings.HasSuffix(variable, "/"+tablePath):
		return groupTable, false
	case strings.HasSuffix(variable, "/position/gate_raw"):
		return groupGate, false
	case strings.Contains(variable, "/position/"):
		return groupPosition, false
	case strings.Contains(variable, "/"+headPath):
		return groupHead, matrix
	case matrix:
		return groupWeights, true
	default:
		return groupVectors, false
	}
}

// layerOf numbers a variable for layer-wise decay, as BEiT (https://arxiv.org/abs/2106.08254) does: 0 for the embedding
// of tokens (patch projection, class token, pretrained table), i+1 for block i, depth+1 for the final norm and the
// head. An encoding, its gate and adapters are new like the head, so they have its layer, wherever their variables are.
func layerOf(variable string, depth int) int {
	switch group, _ := groupOf(variable); group {
	case groupPosition, groupGate, groupHead, groupLoRA:
		return depth + 1
	case groupTable:
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

// frozenGroups lists the groups that Recipe.Freeze names.
func frozenGroups(freeze string) (names []string, err error) {
	for _, name := range strings.FieldsFunc(freeze, func(c rune) bool { return c == ',' }) {
		switch name = strings.TrimSpace(name); {
		case name == freezeBackbone:
			names = append(names, groupWeights, groupVectors, groupTable)
		case slices.Contains(groups, name):
			names = append(names, name)
		default:
			return nil, fmt.Errorf("finetune: freeze names the unknown group %q: want some of %s, %s", name,
				freezeBackbone, strings.Join(groups, ", "))
		}
	}
	return names, nil
}

// Paths in the store of a model. They are a file format.
const (
	modelScope      = checkpoints.ModelScope
	headPath        = vit.ScopeHead + "/"     // below the model's scope
	positionPath    = vit.ScopePosition + "/" // likewise
	tablePath       = vit.PathTable           // the learned table of positions
	accumulatorRoot = "/accumulated"          // sums of gradients within one optimizer step
	averageRoot     = "/" + checkpoints.AverageScope
)

// temporary reports whether a variable need not be saved, because it is zero between steps.
func temporary(variable string) bool { return strings.HasPrefix(variable, accumulatorRoot+"/") }

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
	for _, name := range groups {
		variables, numbers, how, decay := 0, 0, "frozen", ""
		for v := range m.store.IterVariables() {
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
