// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/is"
	"github.com/wepe-go/wepe/vit/position"
	"github.com/wepe-go/wepe/vit/vittest"
)

// uphill is an encoding as another module would write it: a learned vector times the index of the position.
type uphill struct {
	c      position.Config
	vector *model.Variable // [1, width]
}

func (uphill) Name() string { return "uphill" }

func (u uphill) Encode(g *Graph) *Node {
	at := make([]float32, u.c.Positions())
	for i := range at[(u.c.Prefix - u.c.Unplaced):] {
		at[(u.c.Prefix-u.c.Unplaced)+i] = float32(i+1) / 10
	}
	return MatMul(InsertAxes(Const(g, at), -1), u.vector.NodeValue(g)) // [positions, width]
}

func (u uphill) PreEncode(x, positionIndices *Node, _ int) *Node {
	rows := u.Encode(x.Graph())
	if positionIndices != nil {
		rows = Gather(rows, InsertAxes(ConvertDType(positionIndices, dtypes.Int64), -1))
	}
	return Add(x, ConvertDType(InsertAxes(rows, 0), x.DType()))
}

// The vectors of uphill are multiples of one vector: every pair has cosine 1, and one axis explains all.
func TestRegister_AnEncodingOfAnotherModule(t *testing.T) {
	position.Register(position.Spec{Name: "uphill", Doc: "a vector times the number of the position",
		Kind: position.Additive, Variables: []string{"uphill/"},
		New: func(scope *model.Scope, c position.Config) position.Encoder {
			return uphill{c, scope.In("uphill").VariableWithValue("vector", tensors.FromScalarAndDimensions(float32(0.1), 1,
				c.Width))}
		}})
	vittest.Laws(t, "uphill")
	t.Chdir(t.TempDir())
	is.Said(t, "the list", succeeds(t, "list", "positions"), "a vector times the number of the position")
	dir := images(t, "own", 8, 16, 24)
	is.Said(t, "the table", succeeds(t,
		"compare --recipe cifar100-small --positions learned,uphill --sizes 16x24 --out runs"+
			" --data "+dir+small), "uphill")
	const run = "runs/uphill-16x24-seed0"
	succeeds(t, "eval --size 24x32 --data", dir, run)
	succeeds(t, "export "+run+" hf --to hf") // compares the logits
	for _, row := range analyzed(t, "m="+run+" --analyses similarity,shuffle --data "+dir)["m"] {
		if row.Note != "" || row.At == "first 1" && (row.Value < 1-1e-6 || row.Value > 1+1e-6) {
			t.Errorf("%+v, want all of the variance on the first axis", row)
		}
	}
}
