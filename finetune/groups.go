// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"strings"

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
