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

const tileGap, groupGap = 2, 12 // pixels

// ImageGrid writes rows of images as a PNG, all as large as the first is at a height of 112 pixels, with wider gaps
// around each group of neighbours in a row.
func ImageGrid(w io.Writer, rows [][]image.Image, group int) error {
	b := rows[0][0].Bounds()
	width := max(1, tileSide*b.Dx()/b.Dy())
	left := func(x int) int { return x*(width+tileGap) + x/group*(groupGap-tileGap) }
	out := image.NewRGBA(image.Rect(0, 0, left(len(rows[0])-1)+width, len(rows)*(tileSide+groupGap)-groupGap))
	draw.Draw(out, out.Bounds(), image.White, image.Point{}, draw.Src)
	for y, row := range rows {
		for x, tile := range row {
			at := image.Rect(0, 0, width, tileSide).Add(image.Pt(left(x), y*(tileSide+groupGap)))
			draw.NearestNeighbor.Scale(out, at, tile, tile.Bounds(), draw.Src, nil)
		}
	}
	return png.Encode(w, out)
}
