// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import "github.com/wepe-go/wepe/vit/position"

// Names of variables and scopes below the scope of a model, as in "block_03/attention/query/weights". They are a file
// format.
const (
	ScopePatch    = "patch"
	ScopePosition = "position"   // of all variables of the encoding
	ScopeBlock    = "block_%02d" // of the number of the block
	ScopePool     = "pool"
	ScopeHead     = "head"
	VarClass      = "class"
	VarRegisters  = "registers"

	PathTable = ScopePosition + "/" + position.TableName // the table of position "learned"
)
