// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package detect

import "math"

// cellAnchors are the boxes around the origin of one level: for each size, the root of their area, one of each ratio of
// height to width.
func cellAnchors(sizes, ratios []float64) []Box {
	var cell []Box
	for _, size := range sizes {
		for _, ratio := range ratios {
			w := math.Sqrt(size * size / ratio)
			h := ratio * w
			cell = append(cell, Box{float32(-w / 2), float32(-h / 2), float32(w / 2), float32(h / 2)})
		}
	}
	return cell
}

// gridAnchors are the boxes of a cell moved to every place of a map, row by row. Their centres are stride apart, the
// first is offset·stride from the corner of the image on both axes: ViTDet has 0.
func gridAnchors(cell []Box, rows, cols int, stride, offset float64) []Box {
	anchors := make([]Box, 0, rows*cols*len(cell))
	for row := range rows {
		for col := range cols {
			x, y := float32((float64(col)+offset)*stride), float32((float64(row)+offset)*stride)
			for _, b := range cell {
				anchors = append(anchors, Box{b[0] + x, b[1] + y, b[2] + x, b[3] + y})
			}
		}
	}
	return anchors
}
