// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune_test

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/checkpoints"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit"
	"github.com/wepe-go/wepe/vit/vittest"
)

// diagonal is an encoding as another module would write it: a learned vector times row plus column, over their number.
type diagonal struct {
	c      vit.Config
	vector *model.Variable // [1, width]
}

func newDiagonal(scope *model.Scope, c vit.Config) vit.Additive {
	return diagonal{c, scope.In("diagonal").VariableWithValue("vector", tensors.FromScalarAndDimensions(float32(0.1), 1,
		c.Width))}
}

func (d diagonal) Name() string { return "diagonal" }

func (d diagonal) Encode(g *Graph) *Node {
	at := make([]float32, d.c.Positions())
	for i := range at[d.c.PrefixPositions():] {
		at[d.c.PrefixPositions()+i] = float32(1+i/d.c.Cols()+i%d.c.Cols()) / float32(d.c.Rows()+d.c.Cols())
	}
	return MatMul(InsertAxes(Const(g, at), -1), d.vector.NodeValue(g)) // [places, width]
}

func (d diagonal) PreEncode(x, positionIndices *Node, _ int) *Node {
	rows := d.Encode(x.Graph())
	if positionIndices != nil {
		rows = Gather(rows, InsertAxes(ConvertDType(positionIndices, dtypes.Int64), -1))
	}
	return Add(x, ConvertDType(InsertAxes(rows, 0), x.DType()))
}

// An encoding of another module trains, is opened, at another size too, and leaves as an ordinary ViT.
func TestAnEncodingOfAnotherModuleTrainsOpensAndIsExported(t *testing.T) {
	vit.Register(vit.Position{Name: "diagonal", Doc: "a vector times row plus column",
		Parameters: func(c vit.Config) int { return c.Width }, Variables: []string{"diagonal/"}, Additive: newDiagonal})
	vittest.Laws(t, "diagonal")

	recipe := gomlxtest.Must(finetune.Named("shapes"))(t)
	recipe.Epochs, recipe.Model.Position = 1, "diagonal"
	train, test, err := data.Shapes(data.TaskWhere, 60, 20, 32, 0)
	if err != nil {
		t.Fatal(err)
	}
	run := finetune.Run{Backend: gomlxtest.Backend(), Recipe: recipe, Train: train, Test: test, Dir: t.TempDir()}
	_, row, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opened := gomlxtest.Must(finetune.Open(run.Backend, run.Dir))(t)
	if got := gomlxtest.Must(opened.Evaluate(test))(t); got.Loss != row.Test.Loss || row.Encoding != "diagonal" {
		t.Errorf("opened, the run has %+v, its row %+v of %s", got, row.Test, row.Encoding)
	}
	gomlxtest.Must(gomlxtest.Must(finetune.Open(run.Backend, run.Dir, finetune.Size(48, 64)))(t).Evaluate(test))(t)
	for _, format := range []string{checkpoints.FormatHF, checkpoints.FormatUnfolded} {
		dir := t.TempDir() + "/" + format
		gomlxtest.Must(opened.Export(dir, checkpoints.ExportOptions{Format: format}))(t)
		m := gomlxtest.Must(finetune.Open(run.Backend, dir))(t)
		if got := gomlxtest.Must(m.Evaluate(test))(t); !(math.Abs(float64(got.Loss-row.Test.Loss)) <= 1e-5) {
			t.Errorf("%s: a loss of %g, want %g", format, float64(got.Loss), float64(row.Test.Loss))
		}
	}
}
