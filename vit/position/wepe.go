// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/wepe"
)

// Settings of package wepe that act on a part which not every encoding has.
var (
	ofGate = []string{"wepe_gate", "wepe_learn_gate", "wepe_start", "wepe_surrogate", "wepe_surrogate_beta",
		"wepe_surrogate_gamma"}
	ofProjection = []string{"wepe_projection", "wepe_dropout", "wepe_beta_pos", "wepe_learn_beta_pos"}
	ofTable      = []string{"wepe_table", "wepe_table_resolution", "wepe_table_error"}
	ofGrid       = []string{"wepe_shift", "wepe_rows", "wepe_cols", "wepe_offset_u", "wepe_offset_v"} // not of differences
)

// wepeSettings are the settings of package wepe without those of parts that an encoding lacks.
func wepeSettings(lacks ...[]string) []string {
	all := slices.Concat(lacks...)
	return slices.DeleteFunc(wepe.Params(), func(name string) bool { return slices.Contains(all, name) })
}

// newWePE configures the Weierstrass encoding from the hyperparameters of the scope.
func newWePE(scope *model.Scope, c Config) Encoder {
	return wepe.New(scope, c.Rows, c.Cols, c.Width).WithPrefix(c.placed()).FromScope().Done()
}

// newWePESphere is newWePE with ℘ and ℘′ on the Riemann sphere, over the whole cell, unless the hyperparameters
// override it: docs/mathematics.md, section 14.
func newWePESphere(scope *model.Scope, c Config) Encoder {
	return wepe.New(scope, c.Rows, c.Cols, c.Width).WithPrefix(c.placed()).OnSphere().FromScope().Done()
}

// newWePETable is newWePE with a look-up table in place of ℘, unless wepe_evaluation overrides it. The table is stored
// with the variables and ω3′ is not trained.
func newWePETable(scope *model.Scope, c Config) Encoder {
	return wepe.New(scope, c.Rows, c.Cols, c.Width).WithPrefix(c.placed()).
		WithTable(0, 0).FromScope().Done()
}

// newWePEBias configures the bias of relative positions from the same hyperparameters.
func newWePEBias(scope *model.Scope, c Config) Encoder {
	b := wepe.New(scope, c.Rows, c.Cols, c.Width).WithPrefix(c.Prefix).FromScope().Bias(c.Heads)
	return &sharedBias{RelativeBias: b}
}

// sharedBias is one bias for all blocks.
type sharedBias struct {
	*wepe.RelativeBias
	built once
}

// Bias implements Biaser.
func (b *sharedBias) Bias(g *Graph, _ int) *Node {
	return b.built.in(g, func() *Node { return b.RelativeBias.AttentionBias(g) })
}

// wepeTrainedGrid is for coarser grids; finer ones need no hyperparameters.
func wepeTrainedGrid(g Grid) map[string]any { return wepe.TrainedGrid(g.Rows, g.Cols) }
