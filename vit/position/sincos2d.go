// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
)

// ParamSinCos2DTemperature is the temperature T of the frequencies of sincos2d, default 10000, > 1: the longest wave
// has a period of nearly 2π·T patches.
const ParamSinCos2DTemperature = "sincos2d_temperature"

const sinCosTemperature = 10000.

// Variants of sincos2d: four waves of every frequency, in the order of one code base. The encoding has MAE's.
const (
	// sinCosMAE is the order of https://arxiv.org/abs/2111.06377: [ sin x | cos x | sin y | cos y ], each over all
	// frequencies. MAE's code names the first half "emb_h", but passes the column to it.
	sinCosMAE = "mae"

	// sinCosBigVision is MAE's order; the last of n frequencies is 1/T itself, because the exponent is j/(n-1).
	sinCosBigVision = "big_vision"

	// sinCosTimm is [ sin y | sin x | cos y | cos x ]. With timm's reverse_coord it is the table of the transposed grid,
	// patches column by column.
	sinCosTimm = "timm"

	// sinCosTimmInterleave is timm's interleave_sin_cos: [ sin y | cos y | sin x | cos x ].
	sinCosTimmInterleave = "timm-interleave"

	// sinCosInterleaved is the order of the WePE paper: sin x, cos x, sin y, cos y of one frequency after the other.
	sinCosInterleaved = "interleaved"
)

// sinCosIndices gives the indices of sin x, cos x, sin y and cos y in the order of a variant.
var sinCosIndices = map[string][4]int{
	sinCosMAE:            {0, 1, 2, 3},
	sinCosBigVision:      {0, 1, 2, 3},
	sinCosTimm:           {1, 3, 0, 2},
	sinCosTimmInterleave: {2, 3, 0, 1},
	sinCosInterleaved:    {0, 1, 2, 3},
}

// sinCos2D returns the fixed two-dimensional table of a variant, float32 [prefix+rows·cols, width], prefix rows zero.
// With n = width/4 and w_j = T^(-j/n), j = 0 … n-1, where the temperature T is 10000 in all code bases, the row of the
// patch at row y and column x consists of
//
//	sin(x·w_j), cos(x·w_j), sin(y·w_j), cos(y·w_j)
//
// in the order of the variant.
//
// On another grid the table is computed again, rows and columns counted from 0, as in big_vision and timm. MAE trains
// the table when it fine-tunes, and resamples it with torch's bicubic kernel: fold the model, then resample its learned
// rows (checkpoints.Resample, kind "hf").
func sinCos2D(variant string, temperature float64, rows, cols, prefix, width int) []float32 {
	n := width / 4
	last := float64(n) // divides the exponent
	if variant == sinCosBigVision {
		last = max(1, last-1)
	}
	table := make([]float32, (prefix+rows*cols)*width)
	for k := range rows * cols {
		y, x := float64(k/cols), float64(k%cols)
		out := table[(prefix+k)*width:]
		for j := range n {
			w := math.Pow(temperature, -float64(j)/last)
			for i, value := range [4]float64{math.Sin(x * w), math.Cos(x * w), math.Sin(y * w), math.Cos(y * w)} {
				place := sinCosIndices[variant][i]
				if variant == sinCosInterleaved {
					out[4*j+place] = float32(value)
				} else {
					out[place*n+j] = float32(value)
				}
			}
		}
	}
	return table
}

// newSinCos2D is sinCos2D as a constant of the graph.
func newSinCos2D(scope *model.Scope, c Config) Encoder {
	temperature := sinCosTemperature
	readSettings(scope, []setting.Row{
		setting.Number(ParamSinCos2DTemperature, &temperature, minTheta, math.MaxFloat32, "the temperature of the "+
			"frequencies: the longest wave has a period of nearly 2π times as many patches"),
	})
	rows := tensors.FromFlatDataAndDimensions(
		sinCos2D(sinCosMAE, temperature, c.Rows, c.Cols, c.placed(), c.Width), c.Positions(), c.Width)
	return &table{name: "sincos2d", rows: func(g *Graph) *Node { return Const(g, rows) }}
}
