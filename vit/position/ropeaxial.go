// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"math"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/setting"
)

// Hyperparameters of rope-axial, besides ParamRopeTheta (default 100).
const (
	ParamRopeAxialFirst  = "rope_axial_first"  // what turns the first half of the pairs: "col" (default) or "row"
	ParamRopeAxialOffset = "rope_axial_offset" // the first coordinate, default 0
	ParamRopeAxialRows   = "rope_axial_rows"   // R of EVA-02: row r of n is at (r+offset)·R/n; 0, the default, at r+offset
	ParamRopeAxialCols   = "rope_axial_cols"   // the same of columns
)

// axialRope is the encoding's settings.
type axialRope struct {
	theta      float64
	first      string
	offset     float64
	rows, cols int
}

func (r *axialRope) settings() []setting.Row {
	return []setting.Row{
		thetaSetting(&r.theta),
		setting.Choice(ParamRopeAxialFirst, &r.first, "what turns the first half of the pairs", "col", "row"),
		setting.Number(ParamRopeAxialOffset, &r.offset, -math.MaxFloat32, math.MaxFloat32, "the first coordinate"),
		setting.Number(ParamRopeAxialRows, &r.rows, 0, maxSide, "R of EVA-02, where row r of n is at "+
			"(r + offset)·R/n; 0 counts rows, not scaled, on every grid"),
		setting.Number(ParamRopeAxialCols, &r.cols, 0, maxSide, "the same of columns"),
	}
}

// newRopeAxial is the axial form of rope-vit (https://arxiv.org/abs/2403.13298) and of EVA-02
// (https://arxiv.org/abs/2303.11331): with f_j = θ^(-4j/d), j = 0 … d/4-1, the first half of the pairs turns by
// col·f_j, the second by row·f_j.
func newRopeAxial(scope *model.Scope, c Config) Encoder {
	r := axialRope{theta: 100, first: "col"}
	readSettings(scope, r.settings())
	f := frequencies(r.theta, c.headDim()/4)
	scaled := func(at float64, n, reference int) float64 {
		if at += r.offset; reference > 0 {
			at *= float64(reference) / float64(n)
		}
		return at
	}
	return newRotation("rope-axial", c, false, fixedPairs(c, 0, func(k, i int) float64 {
		x, y := c.patch(k)
		first, second := scaled(x, c.Cols, r.cols), scaled(y, c.Rows, r.rows)
		if r.first == "row" {
			first, second = second, first
		}
		if i < len(f) {
			return first * f[i]
		}
		return second * f[i-len(f)]
	}))
}
