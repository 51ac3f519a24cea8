// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe"
)

// Settings of package wepe that act on a part which not every encoding has.
var (
	ofGate = []string{wepe.ParamGate, wepe.ParamLearnGate, wepe.ParamStart, wepe.ParamSurrogate,
		wepe.ParamSurrogateBeta, wepe.ParamSurrogateGamma}
	ofProjection = []string{wepe.ParamProjection, wepe.ParamDropout, wepe.ParamBetaPos, wepe.ParamLearnBetaPos}
	ofSum        = []string{wepe.ParamKappa, wepe.ParamPoleValue} // also of mode release
	ofLattice    = []string{wepe.ParamLearnLattice}               // fixed with a table
	ofGrid       = []string{wepe.ParamShift, wepe.ParamRows, wepe.ParamCols, wepe.ParamOffsetU,
		wepe.ParamOffsetV} // not of differences
)

// wepeSettings are the settings of package wepe without those of parts that an encoding lacks.
func wepeSettings(lacks ...[]string) []string {
	all := slices.Concat(lacks...)
	return slices.DeleteFunc(wepe.Params(), func(name string) bool { return slices.Contains(all, name) })
}

// wepeRow is the row of the additive encoding of package wepe in a form, from the hyperparameters of the scope. The
// form is not one of them: the name of the encoding decides it alone.
func wepeRow(name, doc, variables string, form func(*wepe.Config) *wepe.Config, lacks ...[]string) Spec {
	create := func(scope *model.Scope, c Config) Encoder {
		config := wepe.New(scope, c.Rows, c.Cols, c.Width).WithPrefix(c.placed())
		return form(config).FromScope().Build()
	}
	return Spec{Name: name, Doc: doc, Variables: []string{variables}, Params: wepeSettings(lacks...),
		TrainedGrid: wepeTrainedGrid, Kind: Additive, New: create}
}

func published(c *wepe.Config) *wepe.Config   { return c }
func sphereTable(c *wepe.Config) *wepe.Config { return c.OnSphere().WithTable() }

// newWePEBias configures the bias of relative positions from the same hyperparameters.
func newWePEBias(scope *model.Scope, c Config) Encoder {
	b := wepe.New(scope, c.Rows, c.Cols, c.Width).WithPrefix(c.Prefix).FromScope().Bias(c.Heads)
	return &sharedBias{RelativeBias: b}
}

// sharedBias is one bias for all blocks.
type sharedBias struct {
	wepe.RelativeBias
	built shared[*Node]
}

// Bias implements Biaser.
func (b *sharedBias) Bias(g *Graph, _ int) *Node {
	return b.built.in(g, func() *Node { return b.RelativeBias.AttentionBias(g) })
}

// wepeTrainedGrid is for coarser grids; finer ones need no hyperparameters.
func wepeTrainedGrid(g Grid) map[string]any {
	return map[string]any{wepe.ParamRows: g.Rows, wepe.ParamCols: g.Cols}
}

// Values of ParamBlend.
const (
	blendSurrogate = "surrogate"
	blendExact     = "exact"
	blendSphere    = "sphere"
)

// newHybrid blends an encoding of the patches, ParamBlend, into learned rows, wepe.Hybrid. The rows are the variable of
// position "learned", at the same path, so that a pretrained model keeps its own table. For training from scratch use
// "wepe".
func newHybrid(scope *model.Scope, c Config) Encoder {
	rows := learnedRows(scope, c)
	blend := blendSurrogate
	readSettings(scope, setting.Choice(ParamBlend, &blend, "what hybrid blends: a surrogate reads, besides the gate's, "+
		"the settings wepe_surrogate… alone, exact and sphere all others of ℘", blendSurrogate, blendExact, blendSphere))
	config := wepe.New(scope, c.Rows, c.Cols, c.Width)
	if blend == blendSphere {
		config.OnSphere()
	}
	patches := config.FromScope().Build
	if blend == blendSurrogate {
		patches = config.Surrogate
	}
	encoding := patches() // without the prefix
	return config.WithPrefix(c.placed()).Hybrid(rows, encoding)
}
