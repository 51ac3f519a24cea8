// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position_test

import (
	"fmt"
	"math"
	"math/cmplx"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/position"
)

// GoMLX's own attention, with the axial rotation and the distance bias of this package for 3×5 patches after a class
// token, and the same computed naively.
func ExampleQK() {
	const rows, cols, prefix, heads, headDim, width = 3, 5, 1, 2, 8, 16
	const tokens = prefix + rows*cols
	store := model.NewStore()
	store.SetParam("/"+model.ParamInitialSeed, int64(3))
	x := make([]float32, tokens*width)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	exec := model.MustNewExec(gomlxtest.Backend(), store, func(scope *model.Scope, x *Node) *Node {
		encoder := position.New("rope-axial+alibi2d", scope.In("position"), position.Config{
			Grid: position.Grid{Rows: rows, Cols: cols, Prefix: prefix}, Width: width, Heads: heads})
		biaser, _ := position.As[position.Biaser](encoder)
		return attention.SelfAttention(scope.In("attention"), x, heads, headDim).UseProjectionBias(false).
			WithPositionalEncoder(position.QK(encoder, 0)).
			WithAttentionBias(InsertAxes(biaser.Bias(x.Graph(), 0), 0)).Done()
	})
	got := tensors.MustCopyFlatData[float32](exec.MustCall(tensors.FromFlatDataAndDimensions(x, 1, tokens, width))[0])

	weights := func(name string) []float32 {
		variable := store.GetVariable("/attention/MultiHeadAttention/" + name + "/dense/weights")
		return tensors.MustCopyFlatData[float32](variable.MustValue())
	}
	project := func(x []float32, name string) []float32 { // rows of x times a matrix [width, width]
		y, w := make([]float32, len(x)), weights(name)
		for i := range y {
			for k := range width {
				y[i] += x[i/width*width+k] * w[k*width+i%width]
			}
		}
		return y
	}
	rotated := func(x []float32) []float32 { // rope-vit: pairs by the column, then pairs by the row, θ = 100
		for i := 0; i < len(x); i += 2 {
			patch, pair := i/width-prefix, i%headDim/2
			if patch < 0 {
				continue
			}
			at := []int{patch % cols, patch / cols}[pair/(headDim/4)]
			angle := float64(at) * math.Pow(100, -float64(pair%(headDim/4))/(headDim/4))
			turned := complex(float64(x[i]), float64(x[i+1])) * cmplx.Exp(complex(0, angle))
			x[i], x[i+1] = float32(real(turned)), float32(imag(turned))
		}
		return x
	}
	bias := func(query, key, head int) float64 { // CROMA: slopes 2^-4 and 2^-8 times the distance in patches
		a, b := query-prefix, key-prefix
		if min(a, b) < 0 {
			return 0
		}
		return -math.Exp2(-4*float64(head+1)) * math.Hypot(float64(a/cols-b/cols), float64(a%cols-b%cols))
	}
	q, k, v := rotated(project(x, "query")), rotated(project(x, "key")), project(x, "value")
	mixed := make([]float32, len(x))
	for query := range tokens {
		for head := range heads {
			scores, sum := make([]float64, tokens), 0.0
			for key := range tokens {
				for c := head * headDim; c < (head+1)*headDim; c++ {
					scores[key] += float64(q[query*width+c]*k[key*width+c]) / math.Sqrt(headDim)
				}
				scores[key] = math.Exp(scores[key] + bias(query, key, head))
				sum += scores[key]
			}
			for key := range tokens {
				for c := head * headDim; c < (head+1)*headDim; c++ {
					mixed[query*width+c] += float32(scores[key]/sum) * v[key*width+c]
				}
			}
		}
	}
	worst := 0.0
	for i, want := range project(mixed, "output") {
		worst = max(worst, math.Abs(float64(got[i]-want)))
	}
	fmt.Println(len(got) == tokens*width, worst < 1e-5)
	// Output: true true
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
