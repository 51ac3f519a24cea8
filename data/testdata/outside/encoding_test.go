// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package outside

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/vit/position"
	"github.com/wepe-go/wepe/vit/vittest"
)

// far is a relative bias: minus a learned factor times the distance in tokens, in every head.
type far struct {
	position.Config
	factor *model.Variable // []
}

var _ position.Biaser = far{}

func (far) Name() string { return "far" }

func (f far) Bias(g *Graph, _ int) *Node {
	n := f.Tokens()
	apart := make([]float32, n*n)
	for i := range apart {
		apart[i] = -float32(max(i/n-i%n, i%n-i/n))
	}
	bias := Mul(Const(g, tensors.FromFlatDataAndDimensions(apart, n, n)), f.factor.NodeValue(g))
	return BroadcastPrefix(bias, f.Heads) // [heads, tokens, tokens]
}

// A registered encoding passes the laws of wepe's own, beside one of them too.
func TestAnEncodingPassesTheLaws(t *testing.T) {
	position.Register(position.Spec{Name: "far", Kind: position.Bias, Variables: []string{"far/"},
		New: func(scope *model.Scope, c position.Config) position.Encoder {
			return far{c, scope.In("far").VariableWithValue("factor", float32(0.1))}
		}})
	vittest.Laws(t, "far")
	vittest.Laws(t, "learned+rope-axial+far")
}
