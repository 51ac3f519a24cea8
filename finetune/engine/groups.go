// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
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

// Backbone stands for the groups weights, vectors and table in Frozen.
const Backbone = "backbone"

// Groups lists the groups.
var Groups = []string{groupWeights, groupVectors, groupTable, groupPosition, groupGate, groupHead, groupLoRA}

// GroupOf returns the group of a variable and reports whether weight decay applies to it by default.
func GroupOf(variable string) (group string, decays bool) {
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

// LayerOf numbers a variable for layer-wise decay, as BEiT (https://arxiv.org/abs/2106.08254) does: 0 for the embedding
// of tokens (patch projection, class token, pretrained table), i+1 for block i, depth+1 for the final norm and the
// head. An encoding, its gate and adapters are new like the head, so they have its layer, wherever their variables are.
func LayerOf(variable string, depth int) int {
	switch group, _ := GroupOf(variable); group {
	case groupPosition, groupGate, groupHead, groupLoRA:
		return depth + 1
	case groupTable:
		return 0
	}
	if block := blockOf(variable); block >= 0 {
		return block + 1
	}
	if strings.HasPrefix(variable, "/"+weight.ModelScope+"/norm/") {
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

// Frozen lists the groups that a list names, as "backbone,gate".
func Frozen(freeze string) (names []string, err error) {
	for _, name := range strings.FieldsFunc(freeze, func(c rune) bool { return c == ',' }) {
		switch name = strings.TrimSpace(name); {
		case name == Backbone:
			names = append(names, groupWeights, groupVectors, groupTable)
		case slices.Contains(Groups, name):
			names = append(names, name)
		default:
			return nil, fmt.Errorf("training: freeze names the unknown group %q: want some of %s, %s", name,
				Backbone, strings.Join(Groups, ", "))
		}
	}
	return names, nil
}

// Roots of the paths of a training's variables in a store, above those of the variables they belong to. They are a file
// format.
const (
	AverageRoot     = "/" + weight.AverageScope // moving averages
	accumulatorRoot = "/accumulated"            // sums of gradients within one optimizer step
)

// Temporary reports whether a variable need not be saved, because it is zero between steps.
func Temporary(variable string) bool { return strings.HasPrefix(variable, accumulatorRoot+"/") }
