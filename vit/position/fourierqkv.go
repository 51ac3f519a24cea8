// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// newFourierQKV is the control of wepe-qkv: the same modulation with as many sines and cosines in place of ℘ and ℘′.
func newFourierQKV(scope *model.Scope, c Config) Encoder {
	return newModulation(scope.In("fourier_qkv"), c, "fourier-qkv", waves{c.Rows, c.Cols}, modulated[:]...)
}

// waves are, for the patch centres (x, y) in units of the image's sides and k = 1, 2, 3,
//
//	√(2/3)·[sin πkx, cos πkx, sin πky, cos πky]
//
// vectors of length 2, as the sphere features of z and 2z have. πx spans half a period, as z does.
type waves struct{ rows, cols int }

// Features returns the values of all patches, [rows·cols, 12].
func (w waves) Features(g *Graph) *Node {
	var f []float32
	for row := range w.rows {
		for col := range w.cols {
			for k := 1.0; k <= 3; k++ {
				for _, at := range []float64{(float64(col) + 0.5) / float64(w.cols), (float64(row) + 0.5) / float64(w.rows)} {
					sin, cos := math.Sincos(math.Pi * k * at)
					f = append(f, float32(math.Sqrt(2./3)*sin), float32(math.Sqrt(2./3)*cos))
				}
			}
		}
	}
	return Const(g, tensors.FromFlatDataAndDimensions(f, w.rows*w.cols, modulationFeatures))
}

// FeatureNames describes each column of Features.
func (w waves) FeatureNames() (names []string) {
	for _, k := range []string{"", "2", "3"} {
		for _, axis := range []string{"x", "y"} {
			names = append(names, "sin "+k+"π"+axis, "cos "+k+"π"+axis)
		}
	}
	return names
}

// Scalars returns none: waves learn nothing.
func (w waves) Scalars() (map[string]float64, error) { return nil, nil }
