// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package vit

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// newFourierQKV is the control of wepe-qkv: the same modulation with as many sines and cosines in place of ℘ and ℘′.
func newFourierQKV(scope *model.Scope, c Config) Modulation {
	return newQKVModulation(scope.In("fourier_qkv"), c, "fourier-qkv", qkvFeatures, func(g *Graph) *Node {
		rows, cols := c.Rows(), c.Cols()
		return Const(g, tensors.FromFlatDataAndDimensions(fourierFeatures(rows, cols), rows*cols, qkvFeatures))
	})
}

// fourierFeatures returns, for the patch centres (x, y) in units of the image's sides and k = 1, 2, 3,
//
//	√(2/3)·[sin πkx, cos πkx, sin πky, cos πky]
//
// [rows·cols, 12]: vectors of length 2, as the sphere features of z and 2z have. πx spans half a period, as z does.
func fourierFeatures(rows, cols int) []float32 {
	var f []float32
	for row := range rows {
		for col := range cols {
			for k := 1.0; k <= 3; k++ {
				for _, at := range []float64{(float64(col) + 0.5) / float64(cols), (float64(row) + 0.5) / float64(rows)} {
					sin, cos := math.Sincos(math.Pi * k * at)
					f = append(f, float32(math.Sqrt(2./3)*sin), float32(math.Sqrt(2./3)*cos))
				}
			}
		}
	}
	return f
}

func fourierQKVParameters(c Config) int { return 3 * qkvFeatures * c.Width * c.Depth }
