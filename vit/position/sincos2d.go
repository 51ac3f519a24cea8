// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
)

// newSinCos2D is the fixed two-dimensional table of MAE (https://arxiv.org/abs/2111.06377), a constant of the graph,
// prefix rows zero. With n = width/4 and w_j = T^(-j/n), j = 0 … n-1, where the temperature T is 10000 in all code
// bases, the row of the patch at row y and column x is
//
//	[ sin(x·w_j) | cos(x·w_j) | sin(y·w_j) | cos(y·w_j) ],
//
// each over all frequencies. MAE's code names the first half "emb_h", but passes the column to it.
//
// On another grid the table is computed again, rows and columns counted from 0, as in big_vision and timm. MAE trains
// the table when it fine-tunes, and resamples it with torch's bicubic kernel: fold the model, then resample its learned
// rows (checkpoints.Resample, kind "hf").
func newSinCos2D(scope *model.Scope, c Config) Encoder {
	temperature := 10000.
	readSettings(scope, setting.Number(ParamSinCos2DTemperature, &temperature, minTheta, math.MaxFloat32,
		"the temperature of the frequencies: the longest wave has a period of nearly 2π times as many patches"))
	waves, flat := frequencies(temperature, c.Width/4), make([]float32, c.Positions()*c.Width)
	for k := range c.Rows * c.Cols {
		x, y := c.patch(k)
		out := flat[(c.placed()+k)*c.Width:]
		for j, w := range waves {
			sinX, cosX := math.Sincos(x * w)
			sinY, cosY := math.Sincos(y * w)
			for i, value := range [4]float64{sinX, cosX, sinY, cosY} {
				out[i*len(waves)+j] = float32(value)
			}
		}
	}
	return constantTable("sincos2d", c, flat)
}

// constantTable is a table without variables, flat [Positions, width].
func constantTable(name string, c Config, flat []float32) Encoder {
	rows := tensors.FromFlatDataAndDimensions(flat, c.Positions(), c.Width)
	return &table{name: name, rows: func(g *Graph) *Node { return Const(g, rows) }}
}

// newSinusoidal1D is the fixed table of the Transformer (https://arxiv.org/abs/1706.03762, 3.5) over the position p of
// a token in the sequence, a constant of the graph:
//
//	PE[p, 2j] = sin(p·10000^(-2j/width)),   PE[p, 2j+1] = cos(p·10000^(-2j/width))
//
// Patches are counted row by row; the patch below is Cols positions later. The class token is p = 0, and the patches
// begin at p = 1; without a class token they begin at 0. On another grid the table is computed again for its positions.
func newSinusoidal1D(_ *model.Scope, c Config) Encoder {
	flat := make([]float32, c.Positions()*c.Width)
	for p := range c.Positions() {
		for i := range c.Width {
			angle := float64(p) * math.Pow(10000, -float64(i-i%2)/float64(c.Width))
			value := math.Sin(angle)
			if i%2 == 1 {
				value = math.Cos(angle)
			}
			flat[p*c.Width+i] = float32(value)
		}
	}
	return constantTable("sinusoidal1d", c, flat)
}
