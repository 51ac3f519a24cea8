// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"image"
	"image/png"
	"io"

	"golang.org/x/image/draw"
)

// TileSide is the height of the pictures of a sheet, in pixels.
const TileSide = 112

const tileGap = 6 // pixels

// Sheet writes pictures in rows as a PNG, all as large and wide as the first becomes at the height of TileSide.
func Sheet(w io.Writer, rows [][]image.Image) error {
	if len(rows) == 0 || len(rows[0]) == 0 {
		return errors.New("report: a sheet without pictures")
	}
	b := rows[0][0].Bounds()
	width := max(1, TileSide*b.Dx()/b.Dy())
	out := image.NewRGBA(image.Rect(0, 0, len(rows[0])*(width+tileGap)-tileGap, len(rows)*(TileSide+tileGap)-tileGap))
	draw.Draw(out, out.Bounds(), image.White, image.Point{}, draw.Src)
	for y, row := range rows {
		for x, picture := range row {
			at := image.Rect(0, 0, width, TileSide).Add(image.Pt(x*(width+tileGap), y*(TileSide+tileGap)))
			draw.NearestNeighbor.Scale(out, at, picture, picture.Bounds(), draw.Src, nil)
		}
	}
	return png.Encode(w, out)
}
