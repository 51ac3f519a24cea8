// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit"
)

// Groups of variables: every trainable variable belongs to exactly one. The backbone is the first three.
const (
	groupWeights  = "weights"  // matrices of the backbone; with the head's, those that weight decay applies to
	groupVectors  = "vectors"  // biases, norms and the class token
	groupTable    = "table"    // the learned positions, also pretrained ones
	groupPosition = "position" // all other variables below "position", with the WePE scalars
	groupGate     = "gate"     // the raw variable of λ, between the table and the encoding
	groupHead     = "head"     // the classifier, its matrix decayed like groupWeights
	groupLoRA     = "lora"     // the factors of adapters, decayed too
)

// groups lists the groups.
var groups = []string{groupWeights, groupVectors, groupTable, groupPosition, groupGate, groupHead, groupLoRA}

// groupOf returns the group of a variable and reports whether weight decay applies to it by default.
func groupOf(variable string) (group string, decays bool) {
	matrix := path.Base(variable) == "weights"
	switch {
	case strings.HasPrefix(variable, weight.LowRankRoot+"/"):
		return groupLoRA, true
	case strings.HasSuffix(variable, "/"+vit.PathTable):
		return groupTable, false
	case strings.HasSuffix(variable, "/position/gate_raw"):
		return groupGate, false
	case strings.Contains(variable, "/"+vit.ScopePosition+"/"):
		return groupPosition, false
	case strings.Contains(variable, "/"+vit.ScopeHead+"/"):
		return groupHead, matrix
	case matrix:
		return groupWeights, true
	default:
		return groupVectors, false
	}
}

// layerOf numbers a variable for layer-wise decay, as BEiT (https://arxiv.org/abs/2106.08254) does: 0 for the embedding
// of tokens (patch projection, class token, pretrained table), i+1 for block i, depth+1 for the final norm, a pool with
// weights and the head. An encoding, its gate and adapters are new like the head, so they have its layer, wherever
// their variables are.
func layerOf(variable string, depth int) int {
	switch group, _ := groupOf(variable); group {
	case groupPosition, groupGate, groupHead, groupLoRA:
		return depth + 1
	case groupTable:
		return 0
	}
	if block := blockOf(variable); block >= 0 {
		return block + 1
	}
	if strings.Contains(variable, "/"+vit.ScopePool+"/") ||
		path.Base(path.Dir(variable)) == "norm" && !strings.Contains(variable, "/patch/") { // in any scope
		return depth + 1
	}
	return 0
}

// blockOf returns the number of the block that a variable is in, -1 for none.
func blockOf(variable string) int {
	_, block, in := strings.Cut(variable, "/block_")
	number, _, _ := strings.Cut(block, "/")
	if i, err := strconv.Atoi(number); in && err == nil {
		return i
	}
	return -1
}

var backbone = []string{groupWeights, groupVectors, groupTable}

// TrainsBackbone reports whether a group of the backbone is not frozen, so that layer-wise decay has an effect.
func TrainsBackbone(frozen []string) bool {
	return slices.ContainsFunc(backbone, func(group string) bool { return !slices.Contains(frozen, group) })
}

// Frozen lists the groups that are not trained, as in "backbone,gate": backbone stands for weights, vectors and table.
func Frozen(freeze string) (frozen []string, err error) {
	for _, name := range strings.FieldsFunc(freeze, func(c rune) bool { return c == ',' }) {
		switch name = strings.TrimSpace(name); {
		case name == "backbone":
			frozen = append(frozen, backbone...)
		case slices.Contains(groups, name):
			frozen = append(frozen, name)
		default:
			return nil, fmt.Errorf("training: freeze names the unknown group %q: want some of backbone, %s", name,
				strings.Join(groups, ", "))
		}
	}
	if !slices.ContainsFunc(groups, func(group string) bool { return !slices.Contains(frozen, group) }) {
		return nil, errors.New("training: freeze names all groups: no variable is left to train")
	}
	return frozen, nil
}

// trains reports whether a variable is of a group that is trained.
func (t *Trainer) trains(variable string) bool {
	group, _ := groupOf(variable)
	return !slices.Contains(t.frozen, group)
}

// describeGroups logs how each group of the network's variables is trained, once they exist, unless all are trained
// alike: the factor of the learning rate, before layer-wise decay, and the weight decay.
//
//	weights ×1 (13 variables, 2256 numbers, decay 0.05), table frozen (1 variables, 84 numbers)
func (t *Trainer) describeGroups() {
	o, alike := t.Optimizer, t.Optimizer.LayerDecay == 0
	var parts []string
	for _, name := range groups {
		variables, numbers, how, decay := 0, 0, "frozen", ""
		for v := range t.Store.IterVariables() {
			group, decays := groupOf(v.Path())
			if !v.Trainable || group != name {
				continue
			}
			variables++
			numbers += v.Shape().Size()
			factor := Optimizer{LearningRates: o.LearningRates}.Factor(v.Path(), 0)
			if alike = alike && factor == 1 && t.trains(v.Path()); factor == 0 || !t.trains(v.Path()) {
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
	if o.LayerDecay > 0 && TrainsBackbone(t.frozen) {
		line += fmt.Sprintf(", each layer ×%g of the one above", o.LayerDecay)
	}
	if !alike && t.Network == "/"+weight.ModelScope { // a detector's variables have no groups
		t.Logger.Info("training " + line)
	}
}

// Roots of the paths of a training's variables in a store, above those of the variables they belong to. They are a file
// format.
const (
	AverageRoot     = "/" + weight.AverageScope // moving averages
	accumulatorRoot = "/accumulated"            // sums of gradients within one optimizer step
)

// temporary reports whether a variable need not be saved, because it is zero between steps.
func temporary(variable string) bool { return strings.HasPrefix(variable, accumulatorRoot+"/") }
