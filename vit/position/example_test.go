// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position_test

import (
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// GoMLX's own attention, with the axial rotation and the distance bias of this package for 3×5 patches after a class
// token, and the same step by step.
func ExampleQK() {
	const tokens, heads, headDim, width = 16, 2, 8, 16
	exec := model.MustNewExec(gomlxtest.Backend(), model.NewStore(), func(scope *model.Scope, x *Node) *Node {
		encoder := position.New("rope-axial+alibi2d", scope.In("position"), position.Config{
			Grid: position.Grid{Rows: 3, Cols: 5, Prefix: 1}, Width: width, Heads: heads})
		biaser, _ := position.As[position.Biaser](encoder)
		bias := InsertAxes(biaser.Bias(x.Graph(), 0), 0) // [1, heads, tokens, tokens]
		y := attention.SelfAttention(scope.In("attention"), x, heads, headDim).UseProjectionBias(false).
			WithPositionalEncoder(position.QK(encoder, 0)).WithAttentionBias(bias).Done() // [1, tokens, width]

		project := func(x *Node, name string) *Node {
			weights := scope.Store().GetVariable("/attention/MultiHeadAttention/" + name + "/dense/weights")
			y := MatMul(Reshape(x, tokens, width), Reshape(weights.NodeValue(x.Graph()), width, width))
			return Reshape(y, 1, tokens, heads, headDim)
		}
		rotator, _ := position.As[position.Rotator](encoder)
		q, k := rotator.Block(0).EncodeQK(project(x, "query"), project(x, "key"), nil, 1)
		scores := Add(MulScalar(Einsum("bqhd,bkhd->bhqk", q, k), 1/math.Sqrt(headDim)), bias)
		mixed := Einsum("bhqk,bkhd->bqhd", Softmax(scores, -1), project(x, "value"))
		return ReduceAllMax(Abs(Sub(y, Reshape(project(mixed, "output"), 1, tokens, width))))
	})
	worst := exec.MustCall(gomlxtest.Noise(1, tokens, width))[0].Value().(float32)
	fmt.Println(worst < 1e-5)
	// Output: true
}

// columns is a position encoding of another module: it adds a learned vector times the column of the patch to its
// token.
type columns struct {
	grid   position.Grid
	vector *model.Variable // [1, width]
}

var _ position.Adder = columns{}

func (e columns) Name() string { return "columns" }

func (e columns) Encode(g *Graph) *Node {
	column := make([]float32, e.grid.Positions())
	first := e.grid.Positions() - e.grid.Rows*e.grid.Cols
	for patch := range e.grid.Rows * e.grid.Cols {
		column[first+patch] = float32(patch % e.grid.Cols)
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

// Registers an encoding of another module under a name, for models and so for training, comparisons, analyses and
// checkpoints; vittest.Laws checks it.
func ExampleRegister() {
	position.Register(position.Spec{
		Name: "columns", Doc: "a vector times the column", Kind: position.Additive, Variables: []string{"columns/"},
		New: func(scope *model.Scope, c position.Config) position.Encoder {
			start := tensors.FromScalarAndDimensions(float32(0.1), 1, c.Width)
			return columns{c.Grid, scope.In("columns").VariableWithValue("vector", start)}
		},
	})
	config := vit.Config{ImageRows: 10, ImageCols: 6, PatchSize: 2, Width: 12, Depth: 1, Heads: 3, Classes: 5,
		Position: "columns+rope-axial"}
	exec := model.MustNewExec(gomlxtest.Backend(), model.NewStore(), config.Logits)
	images := tensors.FromScalarAndDimensions(float32(0), 2, 10, 6, 3)
	fmt.Println(exec.MustCall(images)[0].Shape(), config.Encoding()[0].Kind, config.Parameters())
	// Output: (Float32)[2, 5] additive 2153
}
