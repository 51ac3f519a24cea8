// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/additive"
)

// NaFlexImages is a batch of images that keep their aspect ratio: each has its own grid of at most N patches, padded to
// N tokens. This is the NaFlex of SigLIP 2 (https://arxiv.org/abs/2502.14786) and of timm, following NaViT
// (https://arxiv.org/abs/2307.06304) without its packing.
//
// One graph serves all grids: the encodings are computed for each of Grids and selected by Grid. Attention and pooling
// mask the padding, and it has no gradient.
type NaFlexImages struct {
	Strips *Node    // [batch, N·PatchSize, PatchSize, Channels]: patches below one another, row by row; then padding
	Grids  [][2]int // possible grids of an image, rows·cols <= N
	Grid   *Node    // int64 [batch]: index into Grids of each image
}

// NaFlexLogits is Logits for images that keep their aspect ratio. The variables are the same, and images of the grid
// Rows × Cols have the same logits. On other grids every encoding extrapolates by its own rule, as in
// Config.TrainedGrid; "learned" resamples its table as SigLIP 2 does, bilinearly with antialiasing. N need not be
// Rows·Cols.
func (c Config) NaFlexLogits(scope *model.Scope, p NaFlexImages) *Node {
	c = c.resolved()
	if err := c.Encoding().ValidateGrids(); err != nil {
		panic(fmt.Errorf("vit: %w", err))
	}
	d := p.Strips.Shape().Dimensions
	if len(d) != 4 || d[1] == 0 || d[1]%c.PatchSize != 0 || d[2] != c.PatchSize || d[3] != c.Channels {
		exceptions.Panicf("vit: strips are %s, the model wants [batch, N·%d, %d, %d]", p.Strips.Shape(), c.PatchSize,
			c.PatchSize, c.Channels)
	}
	n := d[1] / c.PatchSize
	if len(p.Grids) == 0 {
		exceptions.Panicf("vit: the images have no grids")
	}
	for _, grid := range p.Grids {
		if min(grid[0], grid[1]) < 1 || grid[0]*grid[1] > n {
			exceptions.Panicf("vit: a grid of %d×%d patches does not fit strips of %d", grid[0], grid[1], n)
		}
	}
	pixels := Reshape(ConvertDType(p.Strips, c.dtype()), d[0], n, -1) // [batch, N, p·p·channels]
	at := func(scope *model.Scope) placement { return c.placeOn(scope, p, c.Prefix()+n) }
	return c.trace(scope, pixels, at, false).Logits
}

// placeOn builds the encoder for the grids of a batch, and hides the padding.
func (c Config) placeOn(scope *model.Scope, images NaFlexImages, tokens int) placement {
	p := placement{Encoder: c.Encoding().OnGrids(scope, c.positions(), images.Grids, images.Grid, tokens)}
	var hidden, weights []float32
	for _, grid := range images.Grids {
		patches := grid[0] * grid[1]
		hidden = append(hidden, make([]float32, c.Prefix()+patches)...)
		hidden = append(hidden, slices.Repeat([]float32{hiddenScore}, tokens-c.Prefix()-patches)...)
		weights = append(weights, c.PoolWeights(patches, tokens)...)
	}
	own := func(ofGrids []float32, parts int) *Node { // [batch, parts, tokens]
		table := Reshape(Const(images.Grid.Graph(), ofGrids), len(images.Grids), parts, tokens)
		return additive.Rows(table, images.Grid)
	}
	p.hidden = InsertAxes(own(hidden, 1), 1)
	p.weights = own(weights, c.PooledWidth()/c.Width)
	return p
}
