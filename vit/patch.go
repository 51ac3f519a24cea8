// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/weight"
)

// Patches cuts images [batch, ImageRows, ImageCols, Channels] into squares and projects each to a token
// [batch, Rows·Cols, width]. It is the strided convolution of the paper written as a reshape and one matrix product:
// the weights are [patch·patch·channels, width], pixels row by row and channels last. c is resolved.
func (c Config) Patches(scope *model.Scope, images *Node) *Node {
	return c.project(scope, c.cut(images))
}

// cut returns the pixels of the squares, [batch, Rows·Cols, patch·patch·channels].
func (c Config) cut(images *Node) *Node {
	batch := images.Shape().Dimensions[0]
	if !slices.Equal(images.Shape().Dimensions[1:], []int{c.ImageRows, c.ImageCols, c.Channels}) {
		exceptions.Panicf("vit: images are %s, the model wants [batch, %d, %d, %d]",
			images.Shape(), c.ImageRows, c.ImageCols, c.Channels)
	}
	p := c.PatchSize
	x := ConvertDType(images, c.dtype())
	x = Reshape(x, batch, c.Rows(), p, c.Cols(), p, c.Channels)
	x = TransposeAllAxes(x, 0, 1, 3, 2, 4, 5) // [batch, rows, cols, p, p, channels]
	return Reshape(x, batch, c.Rows()*c.Cols(), p*p*c.Channels)
}

// project projects the pixels of patches to tokens [batch, N, width].
func (c Config) project(scope *model.Scope, pixels *Node) *Node {
	biases := weight.Constant(0)
	if c.PreNorm {
		biases = nil
	}
	x := weight.Dense(scope, pixels, c.Width, c.initScheme().patch, biases)
	if c.PatchNorm {
		x = c.norm(scope.In("norm"), x)
	}
	return x
}
