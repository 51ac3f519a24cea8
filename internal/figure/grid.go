// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package figure

import (
	"image"
	"image/png"
	"io"

	"golang.org/x/image/draw"
)

// tileSide is the height of the images of a grid, in pixels.
const tileSide = 112

const tileGap = 6 // pixels

// ImageGrid writes rows of images as a PNG, all as large as the first is at a height of 112 pixels.
func ImageGrid(w io.Writer, rows [][]image.Image) error {
	b := rows[0][0].Bounds()
	width := max(1, tileSide*b.Dx()/b.Dy())
	out := image.NewRGBA(image.Rect(0, 0, len(rows[0])*(width+tileGap)-tileGap, len(rows)*(tileSide+tileGap)-tileGap))
	draw.Draw(out, out.Bounds(), image.White, image.Point{}, draw.Src)
	for y, row := range rows {
		for x, tile := range row {
			at := image.Rect(0, 0, width, tileSide).Add(image.Pt(x*(width+tileGap), y*(tileSide+tileGap)))
			draw.NearestNeighbor.Scale(out, at, tile, tile.Bounds(), draw.Src, nil)
		}
	}
	return png.Encode(w, out)
}
