// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/wepe"
)

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
	readSettings(scope, setting.Choice(ParamBlend, &blend, "what hybrid blends", blendSurrogate, blendExact,
		blendSphere))
	config := wepe.New(scope, c.Rows, c.Cols, c.Width)
	if blend == blendSphere {
		config = config.OnSphere()
	}
	config = config.FromScope()
	var patches wepe.Encoder
	if blend == blendSurrogate {
		patches = config.Surrogate()
	} else {
		patches = config.Build()
	}
	return config.WithPrefix(c.placed()).Hybrid(rows, patches)
}
