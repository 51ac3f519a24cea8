// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"

	"golang.org/x/image/draw"

	"github.com/wepe-go/wepe/analysis"
	"github.com/wepe-go/wepe/finetune/data"
)

// Sizes of the pictures of a sheet, in pixels.
const (
	tileSide = 112
	tileGap  = 6
)

// sheet puts pictures in rows, each as high as a tile.
func sheet(w io.Writer, rows [][]image.Image) error {
	if len(rows) == 0 || len(rows[0]) == 0 {
		return fmt.Errorf("figures: a sheet without pictures")
	}
	b := rows[0][0].Bounds()
	width := max(1, tileSide*b.Dx()/b.Dy())
	out := image.NewRGBA(image.Rect(0, 0, len(rows[0])*(width+tileGap)-tileGap, len(rows)*(tileSide+tileGap)-tileGap))
	draw.Draw(out, out.Bounds(), image.White, image.Point{}, draw.Src)
	for y, row := range rows {
		for x, picture := range row {
			at := image.Rect(0, 0, width, tileSide).Add(image.Pt(x*(width+tileGap), y*(tileSide+tileGap)))
			draw.NearestNeighbor.Scale(out, at, picture, picture.Bounds(), draw.Src, nil)
		}
	}
	return png.Encode(w, out)
}

// contactSheet shows the first images of each set, a set in a row.
func contactSheet(w io.Writer, sets []*data.Set, n int) error {
	var rows [][]image.Image
	for _, set := range sets {
		var row []image.Image
		for i := range min(n, set.Len(), sets[0].Len()) {
			row = append(row, set.Picture(i))
		}
		rows = append(rows, row)
	}
	return sheet(w, rows)
}

// overlays shows pictures, each beside itself under maps of its patches.
func overlays(w io.Writer, set *data.Set, g analysis.Grid, maps ...[][]float64) error {
	var rows [][]image.Image
	for i := range maps[0] {
		picture := large(set.Picture(i))
		row := []image.Image{picture}
		for _, m := range maps {
			row = append(row, tinted(picture, g, m[i]))
		}
		rows = append(rows, row)
	}
	return sheet(w, rows)
}

func large(picture image.Image) *image.RGBA {
	b := picture.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, max(1, tileSide*b.Dx()/b.Dy()), tileSide))
	draw.NearestNeighbor.Scale(out, out.Bounds(), picture, b, draw.Src, nil)
	return out
}

// tinted is a picture, darkened, under a map in red.
func tinted(picture *image.RGBA, g analysis.Grid, patches []float64) image.Image {
	b := picture.Bounds()
	heat := analysis.MinMax(analysis.Enlarge(patches, g.Rows, g.Cols, b.Dy(), b.Dx()))
	out := image.NewRGBA(b)
	for i, v := range heat {
		x, y := i%b.Dx(), i/b.Dx()
		c := picture.RGBAAt(x, y)
		mix := func(from uint8, to float64) uint8 { return uint8((1-v)*0.55*float64(from) + v*to) }
		out.SetRGBA(x, y, color.RGBA{mix(c.R, 230), mix(c.G, 60), mix(c.B, 20), 255})
	}
	return out
}
