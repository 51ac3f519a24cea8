// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wepe-go/wepe/checkpoints"
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

// groupOf names the group of a variable and says whether weight decay reaches it by default.
func groupOf(variable string) (group string, decays bool) {
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
	switch group, _ := groupOf(variable); group {
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

// frozenGroups lists the groups that Recipe.Freeze names.
func frozenGroups(freeze string) (names []string, err error) {
	for _, name := range strings.FieldsFunc(freeze, func(c rune) bool { return c == ',' }) {
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

// Where things are in the store of a model. Paths are a file format.
const (
	modelScope      = checkpoints.ModelScope
	headPath        = "head/"              // below the model's scope
	positionPath    = "position/"          // there, too
	tablePath       = "position/embedding" // the learned table of positions
	accumulatorRoot = "/accumulated"       // sums of gradients within one optimizer step
	averageRoot     = "/" + checkpoints.AverageScope
)

// temporary says which variables need not be saved: they are zero between steps.
func temporary(variable string) bool { return strings.HasPrefix(variable, accumulatorRoot+"/") }

// inNetwork says whether a variable is one of the network.
func inNetwork(variable string) bool { return strings.HasPrefix(variable, "/"+modelScope+"/") }

// below is the path of a variable of the network below its scope.
func below(variable string) string { return strings.TrimPrefix(variable, "/"+modelScope+"/") }
