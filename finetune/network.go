// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

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

// network returns what Architecture and Model describe.
func (r Recipe) network() (network, error) {
	switch r.Architecture {
	case "":
		return r.Model, nil
	case DHVT:
		return dhvt.FromViT(r.Model)
	}
	return nil, fmt.Errorf("finetune: unknown architecture %q: want %q, or none for the ViT", r.Architecture, DHVT)
}

// logits builds the network, [batch, classes].
func (r Recipe) logits(scope *model.Scope, images *Node) *Node {
	n, err := r.network()
	if err != nil {
		panic(err)
	}
	return n.Logits(scope.In(modelScope), images)
}

// plainViT refuses what only a ViT can do.
func (r Recipe) plainViT(what string) error {
	if r.Architecture != "" {
		return fmt.Errorf("finetune: recipe %s has architecture %s: only a ViT %s", r.Name, r.Architecture, what)
	}
	return nil
}
