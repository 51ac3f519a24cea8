// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/vit/position"
)

// acting is what the encoder of a model does in one place, nil for nothing.
func acting[T any](c Config, scope *model.Scope) T {
	e, _ := position.As[T](c.Encoder(scope))
	return e
}

// turning is a model on 5×3 patches and a class token whose heads have 20 channels.
func turning(name string) Config {
	c := small(name, poolClass)
	c.Width, c.Heads = 60, 3
	return c
}

// small is a model whose sizes are all different, on 5×3 patches of 2×2 pixels.
func small(position, pool string) Config {
	return gomlxtest.Resolved(Config{
		ImageRows: 10, ImageCols: 6, Channels: 3, PatchSize: 2, Width: 28, Depth: 2, Heads: 7, MLPDim: 37, Classes: 11,
		Pool: pool, Position: position,
	})
}

// noise is a batch of images for a model, the same numbers at every call.
func noise(c Config, batch int) *tensors.Tensor {
	return gomlxtest.Noise(batch, c.ImageRows, c.ImageCols, c.Channels)
}
