// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/dhvt"
)

// DHVT is the Recipe.Architecture of package vit/dhvt: vit.Config says its sizes, see dhvt.FromViT. Its Position is
// "none", the network of its authors, or "wepe". It trains from scratch only, in float32, and is neither
// folded nor exported. Where a batch is computed in parts, each part is normalised by itself.
const DHVT = "dhvt"

// network is what a recipe trains: a vit.Config or a dhvt.Config.
type network interface {
	Validate() error
	Logits(scope *model.Scope, images *Node) *Node
}

// networkOf returns the network of an architecture and its sizes.
func networkOf(architecture string, sizes vit.Config) (network, error) {
	switch architecture {
	case "":
		return sizes, nil
	case DHVT:
		return dhvt.FromViT(sizes)
	}
	return nil, fmt.Errorf("finetune: unknown architecture %q: want %q, or none for the ViT", architecture, DHVT)
}
