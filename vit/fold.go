// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/vit/position"
)

// positionRows returns the rows that the encoding of a model adds to its tokens, float32 [Positions, Width], for the
// weights below the model's scope; zeros for position "none". On a fixed grid an additive encoding is this table,
// mathematics.md (9.2).
//
// Encodings that act only inside the blocks have no such table, and are refused.
func (c Config) positionRows(backend compute.Backend, scope *model.Scope) (*tensors.Tensor, error) {
	switch first := c.Encoding()[0]; {
	case first.Kind > position.Additive:
		return nil, fmt.Errorf("vit: position %q acts inside the blocks, not on the tokens before them: there is no table "+
			"to fold it into", c.Position)
	case first.New == nil: // none
		return tensors.FromFlatDataAndDimensions(make([]float32, c.Positions()*c.Width), c.Positions(), c.Width), nil
	}
	positions := model.JoinPath(scope.Scope(), ScopePosition)
	store, err := weight.Copy(scope, func(name string) bool { return strings.HasPrefix(name, ScopePosition+"/") })
	if err != nil {
		return nil, err
	}
	known := store.NumVariables()
	rows, err := model.CallOnce(backend, store, func(s *model.Scope, g *Graph) *Node {
		// Times one: a variable that is itself an output comes back wrong from the onnx backend.
		adder, _ := position.As[position.Adder](c.Encoder(s.Store().Scope(scope.Scope())))
		return MulScalar(adder.Encode(g), 1)
	})
	if err != nil {
		return nil, fmt.Errorf("vit: table of position %q: %w", c.Position, err)
	}
	if created := store.NumVariables() - known; created > 0 {
		return nil, fmt.Errorf("vit: table of position %q: %s lacks %d of its variables: load or build the model there first",
			c.Position, positions, created)
	}
	return rows, nil
}

// Fold turns a model with an additive encoding into the same model with position "learned". The new store has the
// model's variables at the same paths, and the table of its encoding in place of the encoding's variables; the returned
// configuration describes it. Low-rank adapters are added to their matrices; variables outside of the scope, such as
// an optimizer's, are not copied. A folded model is an ordinary ViT with the graph of "learned" and the same logits. In
// "A+B" the table replaces A, and B stays: see Encoding.Folded.
func (c Config) Fold(backend compute.Backend, scope *model.Scope) (*model.Store, Config, error) {
	c, err := c.Resolve()
	if err != nil {
		return nil, c, err
	}
	rows, err := c.positionRows(backend, scope)
	if err != nil {
		return nil, c, err
	}
	encoding, positions := c.Encoding(), model.JoinPath(scope.Scope(), ScopePosition)
	folded, err := weight.Copy(scope, func(name string) bool {
		variable, ofPosition := strings.CutPrefix(name, ScopePosition+"/")
		return !ofPosition || encoding[1:].Owns(variable)
	})
	if err != nil {
		return nil, c, err
	}
	if folded.NumVariables() == 0 {
		return nil, c, fmt.Errorf("vit: fold: there is no model in scope %s", scope.Scope())
	}
	if _, err := folded.CreateVariable(model.JoinPath(positions, position.TableName), rows); err != nil {
		return nil, c, fmt.Errorf("vit: fold: %w", err)
	}
	c.Position = encoding.Folded()
	return folded, c, nil
}
