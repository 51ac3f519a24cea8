// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/wepe-go/wepe/internal/setting"
	"github.com/wepe-go/wepe/internal/weight"
)

// Hyperparameters of encodings, besides those of package wepe and the training grids of Encoding.TrainedGrid.
const (
	// ParamRopeTheta is the base θ of the geometric series of frequencies of every rotary encoding, > 1. Default 10000
	// for rope1d, as2drope and fope, 100 for rope-axial and rope-dinov3, 10 for rope-mixed and rope-mixed-qkv.
	ParamRopeTheta = "rope_theta"

	// Of rope-axial: what turns the first half of the pairs, "col" (default) or "row"; the first coordinate, default 0;
	// and R of EVA-02, where row r of n is at (r+offset)·R/n, the same for columns. R = 0, the default, does not scale.
	ParamRopeAxialFirst  = "rope_axial_first"
	ParamRopeAxialOffset = "rope_axial_offset"
	ParamRopeAxialRows   = "rope_axial_rows"
	ParamRopeAxialCols   = "rope_axial_cols"

	// Of rope-dinov3: the periods of the first and the last frequency in coordinates, both 0, the default, for those by
	// θ; the side that a coordinate spans from -1 to 1, "separate" (default), "max" or "min"; and the augmentation of a
	// training step: the greatest shift of each axis, the greatest factor on an axis, 0 for none, and the greatest factor
	// on both, 0 for none, each up to 100. Their defaults 0, 0 and 2 are the values of DINOv3's training.
	ParamDINORopeShortest  = "rope_dinov3_shortest"
	ParamDINORopeLongest   = "rope_dinov3_longest"
	ParamDINORopeNormalize = "rope_dinov3_normalize"
	ParamDINORopeShift     = "rope_dinov3_shift"
	ParamDINORopeJitter    = "rope_dinov3_jitter"
	ParamDINORopeRescale   = "rope_dinov3_rescale"

	// ParamLiereBlock is the number of channels of a rotation of liere, a divisor of those of a head: 8, the default, or
	// the largest divisor below; 64, a whole head, is in the paper too.
	ParamLiereBlock = "liere_block"

	// ParamLookHereViews is the published model of lookhere: "halves-none" (default), LH-180 of the paper, where a head
	// sees one half of the image or all of it, "corners-none", LH-90, a quarter, or "eighths1-eighths2-none", LH-45, an
	// eighth.
	ParamLookHereViews = "lookhere_views"

	// ParamSinCos2DTemperature is the temperature T of the frequencies of sincos2d, default 10000, > 1: the longest wave
	// has a period of nearly 2π·T patches.
	ParamSinCos2DTemperature = "sincos2d_temperature"

	// ParamGrid2DKernel is the interpolation of grid2d for another grid: "bilinear" (default) or "bicubic" (ViTDet).
	ParamGrid2DKernel = "grid2d_kernel"

	// Of fourier-v and fourier-qkv: the number of waves along each axis, default 3, and whether their frequencies are
	// trained, default false. Of legendre-v: the degree of the polynomials, default 2.
	ParamFourierWaves   = "fourier_waves"
	ParamFourierLearn   = "fourier_learn"
	ParamLegendreDegree = "legendre_degree"

	// ParamBlend is the encoding that hybrid blends into the table: "surrogate" (default), wepe.Config.Surrogate;
	// "exact", position "wepe"; or "sphere", position "wepe-sphere".
	ParamBlend = "wepe_blend"

	fopeLength   = "fope_length"        // of Encoding.TrainedGrid
	as2dRoPEBase = "as2drope_base_rows" // likewise
)

// readSettings reads hyperparameters of an encoding from the scope, and refuses invalid values.
func readSettings(scope *model.Scope, rows ...setting.Row) {
	setting.Read(scope, rows)
	if err := setting.Check(rows); err != nil {
		exceptions.Panicf("position: %v", err)
	}
}

// ofBlocks are a variable of each block.
type ofBlocks []*model.Variable

func (v ofBlocks) value(g *Graph, block int) *Node {
	inDepth(block, len(v))
	return v[block].NodeValue(g)
}

// perBlock creates a variable for each block, in "block_00", "block_01", … below a scope.
func perBlock(scope *model.Scope, c Config, name string, start weight.Fill, dims ...int) ofBlocks {
	all := make(ofBlocks, c.Depth)
	for block := range all {
		all[block] = weight.Float32(scope.At("block_%02d", block), name, start, dims...)
	}
	return all
}

// inDepth refuses a block that the model does not have.
func inDepth(block, depth int) {
	if block < 0 || block >= depth {
		exceptions.Panicf("position: block %d of a model of %d: Config.Depth is their number", block, depth)
	}
}

// coordinates are two numbers for each token of a grid, [tokens, 2]: those of patch k, and (0, 0) for the prefix.
func (g Grid) coordinates(ofPatch func(k int) (a, b float64)) []float32 {
	all := make([]float32, 2*g.Prefix, 2*g.Tokens())
	for k := range g.Rows * g.Cols {
		a, b := ofPatch(k)
		all = append(all, float32(a), float32(b))
	}
	return all
}

const minTheta = 1 + 1e-6 // with θ = 1 all frequencies are 1

// thetaSetting is the row of θ.
func thetaSetting(theta *float64) setting.Row {
	return setting.Number(ParamRopeTheta, theta, minTheta, math.MaxFloat32, "the base θ of the frequencies")
}

// trainedGrid is the prefix of the hyperparameters for the grid of patches in training, to which an encoding's tables
// belong: …_rows and …_cols. 0, the default, is the model's own grid.
type trainedGrid string

const (
	maxSide   = 1 << 14 // of a grid
	maxTables = 1e10    // numbers in the tables of a training grid
)

func (name trainedGrid) params() []string {
	return []string{string(name) + "_rows", string(name) + "_cols"}
}

func (name trainedGrid) read(scope *model.Scope, c Config) (rows, cols int) {
	rows, cols = c.Rows, c.Cols
	for i, to := range []*int{&rows, &cols} {
		side := 0
		readSettings(scope, setting.Number(name.params()[i], &side, 0, maxSide, "the "+[]string{"rows", "columns"}[i]+
			" of patches in training; 0 for the model's own"))
		if side > 0 {
			*to = side
		}
	}
	// A setting, possibly of an untrusted checkpoint, allocates no more than a configuration of package vit.
	if numbers := float64(rows*cols) * float64(c.Width*c.Depth); rows*cols > c.Rows*c.Cols && numbers > maxTables {
		exceptions.Panicf("position: %s = %d, %s = %d: tables of up to %.2g numbers, want at most %.2g: take a smaller grid",
			name.params()[0], rows, name.params()[1], cols, numbers, maxTables)
	}
	return rows, cols
}

// of is a Spec.TrainedGrid.
func (name trainedGrid) of(g Grid) map[string]any {
	return map[string]any{name.params()[0]: g.Rows, name.params()[1]: g.Cols}
}
