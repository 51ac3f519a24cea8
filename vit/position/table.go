// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"

	"github.com/wepe-go/wepe/internal/additive"
)

// table is an additive encoding with one row per token.
type table struct {
	name string
	rows func(g *Graph) *Node // float32 [tokens, width]
}

var (
	_ pos.Encoder    = (*table)(nil)
	_ pos.PreEncoder = (*table)(nil)
	_ Adder          = (*table)(nil)
)

// Name implements pos.Encoder.
func (t *table) Name() string { return t.name }

// Encode implements Adder.
func (t *table) Encode(g *Graph) *Node { return t.rows(g) }

// PreEncode implements pos.PreEncoder: x + rows. The indices are the rows of the tokens of x, nil for all in order.
func (t *table) PreEncode(x, positionIndices *Node, seqAxis int) *Node {
	return additive.PreEncode(t.rows(x.Graph()), x, positionIndices, seqAxis)
}
