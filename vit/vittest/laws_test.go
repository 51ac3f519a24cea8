// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vittest_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/attention/pos"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
	"github.com/wepe-go/wepe/vit/vittest"
)

// ranks is an encoding as another module would write it: a learned vector times the number of the token.
type ranks struct {
	c      position.Config
	vector *model.Variable // [1, width]
}

func newRanks(scope *model.Scope, c position.Config) position.Encoder {
	start := tensors.FromScalarAndDimensions(float32(0.1), 1, c.Width)
	return ranks{c, scope.In("ranks").VariableWithValue("vector", start)}
}

func (r ranks) Name() string { return "ranks" }

func (r ranks) Encode(g *Graph) *Node {
	numbers := IotaFull(g, shapes.Make(dtypes.Float32, r.c.Positions(), 1))
	return MatMul(numbers, r.vector.NodeValue(g)) // [positions, width]
}

func (r ranks) PreEncode(x, positionIndices *Node, _ int) *Node {
	rows := r.Encode(x.Graph())
	if positionIndices != nil {
		rows = Gather(rows, InsertAxes(ConvertDType(positionIndices, dtypes.Int64), -1))
	}
	return Add(x, ConvertDType(InsertAxes(rows, 0), x.DType()))
}

// flips is a rotary encoding of another module: it changes the sign of the queries and keys of every second patch.
type flips struct{ c position.Config }

func (f flips) Name() string            { return "flips" }
func (f flips) Block(int) pos.QKEncoder { return f }
func (f flips) EncodeQK(q, k, positionIndices *Node, _ int) (*Node, *Node) {
	signs := make([]float32, f.c.Tokens())
	for token := range signs {
		signs[token] = 1
		if patch := token - f.c.Prefix; patch > 0 && patch%2 == 1 {
			signs[token] = -1
		}
	}
	at := Const(q.Graph(), signs)
	if positionIndices != nil {
		at = Gather(at, InsertAxes(positionIndices, -1))
	}
	at = ConvertDType(Reshape(at, -1, q.Shape().Dim(1), 1, 1), q.DType()) // [batch or 1, tokens, 1, 1]
	return Mul(q, at), Mul(k, at)
}

func init() {
	position.Register(position.Spec{Name: "ranks", Doc: "a vector times the number of the token",
		Kind: position.Additive, Variables: []string{"ranks/"}, New: newRanks})
	position.Register(position.Spec{Name: "flips", Doc: "signs that alternate", Kind: position.Rotary,
		New: func(_ *model.Scope, c position.Config) position.Encoder { return flips{c} }})
}

func TestOwnAndRegisteredEncodingsPassTheLaws(t *testing.T) {
	for _, name := range append(gomlxtest.Encodings(append(position.Names(), "learned+rope-axial", "hybrid+liere",
		"sincos2d+rope1d+wepe-bias", "wepe+rope-dinov3+alibi2d")), "ranks+flips") {
		t.Run(name, func(t *testing.T) { vittest.Laws(t, name) })
	}
}
