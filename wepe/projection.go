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

// denseNorm is a dense layer followed by LayerNorm, in float32, independent of the model's dtype.
type denseNorm struct {
	dense weight.Linear
	norm  weight.Norm
}

func newDenseNorm(scope *model.Scope, weights weight.Fill, inputs, outputs int) denseNorm {
	return denseNorm{weight.NewLinear(scope.In(scopeDense), inputs, outputs, weights, weight.Constant(0)),
		weight.NewNorm(scope.In(scopeNorm), outputs)}
}

func (d denseNorm) apply(x *Node) *Node { return d.norm.Apply(d.dense.Apply(x), layerNormDelta) }
