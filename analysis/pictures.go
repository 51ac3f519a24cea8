// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"image"
	"image/color"
	"io"

	"golang.org/x/image/draw"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/report"
)

// contactSheet shows the first images of each set, a set in a row.
func contactSheet(w io.Writer, sets []*data.Memory, n int) error {
	var rows [][]image.Image
	for _, set := range sets {
		var row []image.Image
		for i := range min(n, set.Len(), sets[0].Len()) {
			row = append(row, set.RGBA(i))
		}
		rows = append(rows, row)
	}
	return report.ImageGrid(w, rows)
}

// overlays shows pictures, each beside itself under maps of its patches.
func overlays(w io.Writer, set *data.Memory, g Grid, maps ...[][]float64) error {
	var rows [][]image.Image
	for i := range maps[0] {
		picture := large(set.RGBA(i))
		row := []image.Image{picture}
		for _, m := range maps {
			row = append(row, tinted(picture, g, m[i]))
		}
		rows = append(rows, row)
	}
	return report.ImageGrid(w, rows)
}

func large(picture image.Image) *image.RGBA {
	b := picture.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, max(1, report.TileSide*b.Dx()/b.Dy()), report.TileSide))
	draw.NearestNeighbor.Scale(out, out.Bounds(), picture, b, draw.Src, nil)
	return out
}

// tinted is a picture, darkened, under a map in red.
func tinted(picture *image.RGBA, g Grid, patches []float64) image.Image {
	b := picture.Bounds()
	heat := MinMax(enlarge(patches, g.Rows, g.Cols, b.Dy(), b.Dx()))
	out := image.NewRGBA(b)
	for i, v := range heat {
		x, y := i%b.Dx(), i/b.Dx()
		c := picture.RGBAAt(x, y)
		mix := func(from uint8, to float64) uint8 { return uint8((1-v)*0.55*float64(from) + v*to) }
		out.SetRGBA(x, y, color.RGBA{mix(c.R, 230), mix(c.G, 60), mix(c.B, 20), 255})
	}
	return out
}
