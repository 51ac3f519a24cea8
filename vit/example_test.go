// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit_test

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
)

// A whole network, at a small size.
func Example() {
	config, err := vit.Variant("Ti/16") // N, M (for CPUs), Ti, S, B, L, H; any patch size, any rows × cols
	config.Position = "wepe-sphere"     // vit.PositionNames() lists them
	logits := func(scope *model.Scope, images *Node) *Node { return config.Logits(scope.In("vit"), images) }
	if err != nil {
		fmt.Println(err)
	}
	config.ImageRows, config.ImageCols, config.Depth = 32, 48, 2
	exec := model.MustNewExec(gomlxtest.Backend(), model.NewStore(), logits)
	images := tensors.FromScalarAndDimensions(float32(0), 5, 32, 48, 3)
	fmt.Println(exec.MustCall(images)[0].Shape())
	// Output: (Float32)[5, 1000]
}

// columns is a position encoding of another module: it adds a learned vector times the column of the patch to its
// token.
type columns struct {
	c      vit.Config
	vector *model.Variable // [1, width]
}

func (e columns) Name() string { return "columns" }

func (e columns) Encode(g *Graph) *Node {
	column := make([]float32, e.c.Positions())
	for patch := range e.c.Rows() * e.c.Cols() {
		column[e.c.PrefixPositions()+patch] = float32(patch % e.c.Cols())
	}
	return MatMul(InsertAxes(Const(g, column), -1), e.vector.NodeValue(g)) // [positions, width]
}

func (e columns) PreEncode(x, positionIndices *Node, _ int) *Node {
	rows := e.Encode(x.Graph())
	if positionIndices != nil {
		rows = Gather(rows, InsertAxes(positionIndices, -1))
	}
	return Add(x, InsertAxes(rows, 0))
}

// Registers an encoding of another module under a name, for Config.Position and so for training, comparisons, analyses
// and checkpoints; vittest.Laws checks it.
func ExampleRegister() {
	vit.Register(vit.Position{
		Name: "columns", Doc: "a vector times the column",
		Parameters: func(c vit.Config) int { return c.Width }, Variables: []string{"columns/"},
		Additive: func(scope *model.Scope, c vit.Config) vit.Additive {
			start := tensors.FromScalarAndDimensions(float32(0.1), 1, c.Width)
			return columns{c, scope.In("columns").VariableWithValue("vector", start)}
		},
	})
	config := vit.Config{ImageRows: 10, ImageCols: 6, PatchSize: 2, Width: 12, Depth: 1, Heads: 3, Classes: 5,
		Position: "columns+rope-axial"}
	exec := model.MustNewExec(gomlxtest.Backend(), model.NewStore(), config.Logits)
	images := tensors.FromScalarAndDimensions(float32(0), 2, 10, 6, 3)
	fmt.Println(exec.MustCall(images)[0].Shape(), config.Encoding()[0].Kind())
	// Output: (Float32)[2, 5] additive
}

// timm's vit_tiny_patch16_224 has 5,717,416 parameters.
func ExampleVariant() {
	config, err := vit.Variant("Ti/16")
	config.Position = "learned"
	fmt.Println(config.Width, config.Depth, config.Heads, config.Parameters(), err)
	// Output: 192 12 3 5717416 <nil>
}

func ExamplePositionNames() {
	for _, name := range vit.PositionNames()[:4] {
		fmt.Println(name)
	}
	// Output:
	// none
	// learned
	// sinusoidal1d
	// sincos2d
}
