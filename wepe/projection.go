// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package wepe

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
)

const (
	linearStd      = 0.02 // N(0, 0.02²): the release's trunc_normal_ cuts at ±2, a hundred deviations away
	prefixStd      = 0.015
	layerNormDelta = 1e-5 // torch's LayerNorm default, which the release keeps
)

// projection maps the features [rows·cols, features] to vectors [rows·cols, width].
type projection struct {
	config        Config
	scope         *model.Scope
	hidden, final denseNorm // hidden of MLP only
}

func newProjection(c Config, scope *model.Scope) projection {
	p := projection{config: c, scope: scope}
	features := 2
	if c.derivative {
		features = 4
	}
	if c.projection == MLP {
		p.hidden = newDenseNorm(c, scope.In(scopeHidden), features, c.width/2)
		p.final = newDenseNorm(c, scope.In(scopeOutput), c.width/2, c.width)
	} else {
		p.final = newDenseNorm(c, scope, features, c.width)
	}
	return p
}

func (p projection) apply(x *Node) *Node {
	if p.config.projection == MLP {
		x = activation.Gelu(p.hidden.apply(x)) // exact: x·Φ(x)
		x = layers.DropoutStatic(p.scope, x, p.config.dropout)
	}
	return p.final.apply(x)
}

// denseNorm is a dense layer followed by LayerNorm. It holds its variables, so that it can be applied more than once
// in a graph, and builds in one dtype, float32 by default, whatever the model's.
type denseNorm struct{ weights, biases, gain, offset *model.Variable }

func newDenseNorm(c Config, scope *model.Scope, inputs, outputs int) denseNorm {
	dense, norm := scope.In(scopeDense), scope.In(scopeNorm)
	return denseNorm{
		weights: normalVariable(dense, "weights", c.dtype, linearStd, inputs, outputs),
		biases:  constantVariable(dense, "biases", c.dtype, 0, outputs),
		gain:    constantVariable(norm, "gain", c.dtype, 1, outputs),
		offset:  constantVariable(norm, "offset", c.dtype, 0, outputs),
	}
}

// apply maps [n, inputs] to [n, outputs].
func (d denseNorm) apply(x *Node) *Node {
	g := x.Graph()
	row := func(v *model.Variable) *Node { return InsertAxes(v.NodeValue(g), 0) } // [1, outputs]
	x = Add(MatMul(x, d.weights.NodeValue(g)), row(d.biases))
	x = Sub(x, ReduceAndKeep(x, ReduceMean, -1))
	variance := ReduceAndKeep(Square(x), ReduceMean, -1)
	x = Mul(x, Inverse(Sqrt(AddScalar(variance, layerNormDelta)))) // one division per row
	return Add(Mul(x, row(d.gain)), row(d.offset))
}
