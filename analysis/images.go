// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"image"
	"image/color"
	"io"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/numeric"
)

// shownImages is the number of images on the page.
const shownImages = 4

// overlays shows images, each followed by the image under maps of its patches.
func overlays(w io.Writer, set *data.InMemory, g grid, maps ...[][]float64) error {
	var rows [][]image.Image
	for i := range maps[0] {
		seen := set.RGBA(i)
		row := []image.Image{seen}
		for _, m := range maps {
			row = append(row, tinted(seen, g, m[i]))
		}
		rows = append(rows, row)
	}
	return figure.ImageGrid(w, rows, 1+len(maps))
}

// tinted is a darkened image under a map in red.
func tinted(seen *image.RGBA, g grid, patches []float64) image.Image {
	b := seen.Bounds()
	heat := numeric.MinMax(enlarge(patches, g.Rows, g.Cols, b.Dy(), b.Dx()))
	out := image.NewRGBA(b)
	for i, v := range heat {
		x, y := i%b.Dx(), i/b.Dx()
		c := seen.RGBAAt(x, y)
		mix := func(from uint8, to float64) uint8 { return uint8((1-v)*0.55*float64(from) + v*to) }
		out.SetRGBA(x, y, color.RGBA{mix(c.R, 230), mix(c.G, 60), mix(c.B, 20), 255})
	}
	return out
}
