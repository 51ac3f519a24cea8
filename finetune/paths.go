// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"strings"

	"github.com/wepe-go/wepe/checkpoints"
)

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
