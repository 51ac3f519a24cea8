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
	linearStd = 0.02 // N(0, 0.02²): the release's trunc_normal_ cuts at ±2, a hundred deviations away
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
		p.hidden = newDenseNorm(scope.In(scopeHidden), c.dtype, weight.Normal(linearStd), features, c.width/2)
		p.final = newDenseNorm(scope.In(scopeOutput), c.dtype, weight.Normal(linearStd), c.width/2, c.width)
	} else {
		p.final = newDenseNorm(scope, c.dtype, weight.Normal(linearStd), features, c.width)
	}
	return p
}

func (p projection) apply(x *Node) *Node { return p.final.apply(p.hiddenRows(x)) }

// hiddenRows returns what the final layer takes: of Linear the features themselves, of MLP [rows·cols, width/2].
func (p projection) hiddenRows(x *Node) *Node {
	if p.config.projection == mlp {
		x = activation.Gelu(p.hidden.apply(x)) // exact: x·Φ(x)
		x = layers.DropoutStatic(p.scope, x, p.config.dropout)
	}
	return x
}
