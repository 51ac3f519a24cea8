// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/weight"
)

const (
	linearStd = 0.02 // N(0, 0.02²): the release's trunc_normal_ cuts at ±2, a hundred standard deviations away
	prefixStd = 0.015
)

// projection maps the features [rows·cols, features] to vectors [rows·cols, width].
type projection struct {
	config        Config
	scope         *model.Scope
	hidden, final denseNorm // hidden of mlp only
}

func newProjection(c Config, scope *model.Scope) projection {
	p := projection{config: c, scope: scope}
	features := c.numFeatures()
	if c.projection == mlp {
		p.hidden = newDenseNorm(scope.In(scopeHidden), weight.Normal(linearStd), features, c.width/2)
		p.final = newDenseNorm(scope.In(scopeOutput), weight.Normal(linearStd), c.width/2, c.width)
	} else {
		p.final = newDenseNorm(scope, weight.Normal(linearStd), features, c.width)
	}
	return p
}

func (p projection) apply(x *Node) *Node {
	if p.config.projection == mlp {
		x = activation.Gelu(p.hidden.apply(x)) // [rows·cols, width/2], exact: x·Φ(x)
		x = layers.DropoutStatic(p.scope, x, p.config.dropout)
	}
	return p.final.apply(x)
}

const layerNormDelta = 1e-5 // torch's LayerNorm default, also in the release

// dense maps [n, inputs] to [n, outputs]. Like layerNorm, it stores its variables, so that it can be applied more than
// once in a graph, and computes in float32, independent of the model's dtype.
type dense struct{ weights, biases *model.Variable }

func newDense(scope *model.Scope, weights weight.Fill, inputs, outputs int) dense {
	scope = scope.In(scopeDense)
	return dense{
		weights: weight.Float32(scope, "weights", weights, inputs, outputs),
		biases:  weight.Float32(scope, "biases", weight.Constant(0), outputs),
	}
}

func (d dense) apply(x *Node) *Node {
	return Add(MatMul(x, d.weights.NodeValue(x.Graph())), row(d.biases, x.Graph()))
}

// layerNorm normalizes each row of [n, width].
type layerNorm struct{ gain, offset *model.Variable }

func newLayerNorm(scope *model.Scope, width int) layerNorm {
	scope = scope.In(scopeNorm)
	return layerNorm{
		gain:   weight.Float32(scope, "gain", weight.Constant(1), width),
		offset: weight.Float32(scope, "offset", weight.Constant(0), width),
	}
}

func (n layerNorm) apply(x *Node) *Node {
	x = Sub(x, ReduceAndKeep(x, ReduceMean, -1))
	variance := ReduceAndKeep(Square(x), ReduceMean, -1)
	x = Mul(x, Inverse(Sqrt(AddScalar(variance, layerNormDelta)))) // one division per row
	return Add(Mul(x, row(n.gain, x.Graph())), row(n.offset, x.Graph()))
}

// denseNorm is a dense layer followed by LayerNorm.
type denseNorm struct {
	dense
	layerNorm
}

func newDenseNorm(scope *model.Scope, weights weight.Fill, inputs, outputs int) denseNorm {
	return denseNorm{newDense(scope, weights, inputs, outputs), newLayerNorm(scope, outputs)}
}

func (d denseNorm) apply(x *Node) *Node { return d.layerNorm.apply(d.dense.apply(x)) }

// row is a vector as [1, n], against which rows broadcast.
func row(v *model.Variable, g *Graph) *Node { return InsertAxes(v.NodeValue(g), 0) }
