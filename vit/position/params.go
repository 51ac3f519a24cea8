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

// Hyperparameters of encodings, besides those of package wepe and the training grids of Encoding.TrainedGrid: their
// names, with unit and default. Their effect is described where they are read, in texts that the command line prints.
const (
	// ParamRopeTheta is the base θ of the geometric series of frequencies of every rotary encoding, > 1. Default 10000
	// for rope1d, as2drope and fope, 100 for rope-axial and rope-dinov3, 10 for rope-mixed and rope-mixed-qkv.
	ParamRopeTheta = "rope_theta"

	ParamRopeAxialFirst  = "rope_axial_first"  // "col" (default) or "row"
	ParamRopeAxialOffset = "rope_axial_offset" // in patches; default 0
	ParamRopeAxialRows   = "rope_axial_rows"   // in patches; default 0: not scaled
	ParamRopeAxialCols   = "rope_axial_cols"   // in patches; default 0: not scaled

	ParamDINORopeShortest  = "rope_dinov3_shortest"  // a period in coordinates; default 0: by θ
	ParamDINORopeLongest   = "rope_dinov3_longest"   // a period in coordinates; default 0: by θ
	ParamDINORopeNormalize = "rope_dinov3_normalize" // "separate" (default), "max" or "min"
	ParamDINORopeShift     = "rope_dinov3_shift"     // in coordinates; default 0, as in DINOv3's training
	ParamDINORopeJitter    = "rope_dinov3_jitter"    // a factor; default 0: none, as in DINOv3's training
	ParamDINORopeRescale   = "rope_dinov3_rescale"   // a factor; default 2, as in DINOv3's training

	ParamLiereBlock          = "liere_block"          // in channels; default 8 or the largest divisor below
	ParamLookHereViews       = "lookhere_views"       // "halves-none" (default), "corners-none", "eighths1-eighths2-none"
	ParamSinCos2DTemperature = "sincos2d_temperature" // T, > 1; default 10000
	ParamGrid2DKernel        = "grid2d_kernel"        // "bilinear" (default) or "bicubic", as ViTDet
	ParamFourierWaves        = "fourier_waves"        // along each axis; default 3
	ParamFourierLearn        = "fourier_learn"        // default false
	ParamLegendreDegree      = "legendre_degree"      // default 2
	ParamBlend               = "wepe_blend"           // "surrogate" (default), "exact" or "sphere"

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
