// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
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
	weights    [][3]*model.Variable // A, B, C of every block: [features, width]; nil for those that are not scaled
	values     shared               // f
}

// modulationStd is the initial standard deviation of A, B and C: f has length 2, so factors are 1 ± 0.2. It was chosen
// among 0.1 and 0.5 with wepe-qkv on validation images of CIFAR-100, one seed: 0.5 is ahead for three epochs and ends
// lower (rows cifar100-fifteen-trials).
const modulationStd = 0.1

// modulationFeatures is the number of features per patch by default.
const modulationFeatures = 12

// modulated are the parts of a block that a modulation may scale.
var modulated = [3]string{"query", "key", "value"}

// newModulation returns the constructor of a modulation of some parts of a block: all, as in wepe-qkv, or the values
// alone, as in wepe-v, with a third of the parameters and of the work and attention scores that do not depend on
// positions.
func newModulation(name string, of func(*model.Scope, Config) wepe.Field, parts ...string,
) func(*model.Scope, Config) Encoder {
	return func(scope *model.Scope, c Config) Encoder {
		scope = scope.In("%s", strings.ReplaceAll(name, "-", "_"))
		m := &modulation{Field: of(scope, c), name: name, c: c, weights: make([][3]*model.Variable, c.Depth)}
		for block := range m.weights {
			for i, part := range modulated {
				if slices.Contains(parts, part) {
					m.weights[block][i] = weight.Float32(scope.At("block_%02d", block), part, weight.Normal(modulationStd),
						len(m.FeatureNames()), c.Width)
				}
			}
		}
		return m
	}
}

// halfCellField has the sphere features of z and 2z on half a cell.
func halfCellField(scope *model.Scope, c Config) wepe.Field {
	return wepe.New(scope, c.Rows, c.Cols, c.Width).OnHalfCell().FromScope().Field()
}

// Name implements pos.Encoder.
func (m *modulation) Name() string { return m.name }

// Scale implements Scaler.
func (m *modulation) Scale(g *Graph, block int) (scales [3]*Node) {
	f := m.values.in(g, func() *Node { return kernel.Once(m.Features(g))[0] }) // [rows·cols, features]
	for i, weights := range m.weights[block] {
		if weights == nil {
			continue
		}
		scales[i] = AddScalar(MatMul(f, weights.NodeValue(g)), 1)
		if prefix := m.c.Prefix; prefix > 0 {
			scales[i] = Concatenate([]*Node{Ones(g, shapes.Make(dtypes.Float32, prefix, m.c.Width)), scales[i]}, 0)
		}
	}
	return scales
}

// waves are, for the patch centres (x, y) in units of the image's sides and k = 1, 2, 3,
//
//	√(2/3)·[sin πkx, cos πkx, sin πky, cos πky]
//
// vectors of length 2, as the sphere features of z and 2z have. πx spans half a period, as z does.
//
// They are the control of ℘ and ℘′, as many numbers.
type waves struct{ rows, cols int }

func newWaves(_ *model.Scope, c Config) wepe.Field { return waves{c.Rows, c.Cols} }

// Features returns the values of all patches, [rows·cols, 12].
func (w waves) Features(g *Graph) *Node {
	var f []float32
	for row := range w.rows {
		for col := range w.cols {
			for k := 1.0; k <= 3; k++ {
				for _, at := range []float64{(float64(col) + 0.5) / float64(w.cols), (float64(row) + 0.5) / float64(w.rows)} {
					sin, cos := math.Sincos(math.Pi * k * at)
					f = append(f, float32(math.Sqrt(2./3)*sin), float32(math.Sqrt(2./3)*cos))
				}
			}
		}
	}
	return Const(g, tensors.FromFlatDataAndDimensions(f, w.rows*w.cols, modulationFeatures))
}

// FeatureNames describes each column of Features.
func (w waves) FeatureNames() (names []string) {
	for _, k := range []string{"", "2", "3"} {
		for _, axis := range []string{"x", "y"} {
			names = append(names, "sin "+k+"π"+axis, "cos "+k+"π"+axis)
		}
	}
	return names
}

// Scalars returns none: waves learn nothing.
func (w waves) Scalars() (map[string]float64, error) { return nil, nil }
