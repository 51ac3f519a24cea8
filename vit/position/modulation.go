// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/kernel"
	"github.com/wepe-go/wepe/internal/weight"
	"github.com/wepe-go/wepe/wepe"
)

// modulation conditions the queries, keys and values of every block, or some of these, on the position of the token,
// channel by channel, as FiLM conditions a layer on a class (https://arxiv.org/abs/1709.07871). With f the features of
// a patch, [rows·cols, 12], and matrices A, B, C [12, width] of each block,
//
//	q_i ∘= 1 + f_i·A,  k_j ∘= 1 + f_j·B,  v_j ∘= 1 + f_j·C
//
// A score is then a sum over channels of q_i·k_j times a function of both positions, and an output is a sum of values
// that depend on their positions. With A = B = C = 0 it is a model without positions. The prefix has no position and is
// not modulated.
type modulation struct {
	wepe.Field // f
	name       string
	c          Config
	parts      []string          // of modulated, those that are scaled
	weights    []*model.Variable // A, B, C of these parts, [features, width], block by block
	values     shared[*Node]     // f
}

// modulationStd is the initial standard deviation of A, B and C: f has length 2, so factors are 1 ± 0.2. It was chosen
// among 0.1 and 0.5 with wepe-qkv on validation images of CIFAR-100, one seed: 0.5 is ahead for three epochs and ends
// lower (rows cifar100-fifteen-trials).
const modulationStd = 0.1

// modulated are the parts of a block that a modulation may scale.
var modulated = [3]string{"query", "key", "value"}

// modulationRow is the row of a modulation by a function of the position (those without ℘ are in fields.go; tested in
// ../modulation_test.go) of some parts of a block: all, as in wepe-qkv, or the values alone, as in wepe-v, with a third
// of the parameters and of the work and attention scores that do not depend on positions.
func modulationRow(name, doc string, of func(*model.Scope, Config) wepe.Field, params []string,
	trained func(Grid) map[string]any, parts ...string) Spec {
	below := strings.ReplaceAll(name, "-", "_")
	create := func(scope *model.Scope, c Config) Encoder {
		scope = scope.In("%s", below)
		m := &modulation{Field: of(scope, c), name: name, c: c, parts: parts}
		for block := range c.Depth {
			for _, part := range parts {
				m.weights = append(m.weights, weight.Float32(scope.At("block_%02d", block), part,
					weight.Normal(modulationStd), len(m.FeatureNames()), c.Width))
			}
		}
		return m
	}
	return Spec{Name: name, Doc: doc, Variables: []string{below + "/"}, Params: params, TrainedGrid: trained,
		Neutral: parts, Kind: Modulation, New: create}
}

var halfCellSettings = wepeSettings(ofGate, ofProjection, ofSum)

// halfCellField has the sphere features of z and 2z on half a cell.
func halfCellField(scope *model.Scope, c Config) wepe.Field {
	return wepe.New(scope, c.Rows, c.Cols, c.Width).OnHalfCell().FromScope().Field()
}

func (m *modulation) Name() string { return m.name }

// Scale implements Scaler. One product for all blocks is fewer kernels, but a training process on XLA CPU took 5 % more
// memory with it (Ti/16, batches of 16).
func (m *modulation) Scale(g *Graph, block int) (scales [3]*Node) {
	inDepth(block, m.c.Depth)
	f := m.values.in(g, func() *Node { return kernel.Once(m.Features(g))[0] }) // [rows·cols, features]
	for i, part := range m.parts {
		w := m.weights[block*len(m.parts)+i].NodeValue(g)
		scales[slices.Index(modulated[:], part)] = m.c.behindPrefix(AddScalar(MatMul(f, w), 1))
	}
	return scales
}

// behindPrefix are the factors [tokens, width] of all tokens from those of the patches: 1 for the prefix.
func (c Config) behindPrefix(factors *Node) *Node {
	if c.Prefix == 0 {
		return factors
	}
	return Concatenate([]*Node{Ones(factors.Graph(), shapes.Make(dtypes.Float32, c.Prefix, c.Width)), factors}, 0)
}
