// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package position

import (
	"fmt"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The angle of pair j of patch (row, col) is (col + offset)·C/cols·100^(-j/n) in the first half, and the same of the
// row in the second; "row" exchanges the halves, and R = C = 0 does not scale.
func TestAxialAnglesHaveTheirOrderOffsetAndScale(t *testing.T) {
	c := turning("rope-axial")
	n := c.headDim() / 4
	for _, test := range []struct {
		first      string
		offset     float64
		rows, cols int
	}{{"col", 0, 0, 0}, {"row", 0, 0, 0}, {"col", 0.5, 0, 0}, {"row", 0.5, 7, 11}, {"col", -0.25, 0, 2}} {
		store := model.NewStore()
		store.SetParams(map[string]any{ParamRopeAxialFirst: test.first, ParamRopeAxialOffset: test.offset,
			ParamRopeAxialRows: test.rows, ParamRopeAxialCols: test.cols})
		got := gomlxtest.RunModel(t, store, func(s *model.Scope, in []*Node) []*Node {
			cos, sin := rotationOf(acting[Rotator](c, s)).pairs(in[0].Graph(), 0)
			return []*Node{cos, sin}
		}, float32(0))
		var cos, sin []float64
		for k := range c.Tokens() {
			patch := k - c.Prefix
			down, across := float64(patch/c.Cols)+test.offset, float64(patch%c.Cols)+test.offset
			if test.rows > 0 {
				down *= float64(test.rows) / float64(c.Rows)
			}
			if test.cols > 0 {
				across *= float64(test.cols) / float64(c.Cols)
			}
			halves := []float64{across, down}
			if test.first == "row" {
				halves = []float64{down, across}
			}
			for _, at := range halves {
				for j := range n {
					angle := at * math.Pow(100, -float64(j)/float64(n))
					if patch < 0 {
						angle = 0
					}
					cos, sin = append(cos, math.Cos(angle)), append(sin, math.Sin(angle))
				}
			}
		}
		gomlxtest.NearAbs(t, fmt.Sprintf("%+v: cosines", test), got[0], cos, 1e-6)
		gomlxtest.NearAbs(t, fmt.Sprintf("%+v: sines", test), got[1], sin, 1e-6)
	}
}
