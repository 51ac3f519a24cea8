// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package figure

import (
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Field is a position encoding over a grid of patches, row-major, row 0 at the top of the image.
type Field struct {
	Title      string
	Rows, Cols int

	Features []float64 // [Rows·Cols, len(Names)] before projection, in [-1, 1]; nil omits their panels
	Names    []string  // of the features
	Vectors  []float64 // [Rows·Cols, n], one per patch; nil omits their panel
}

// Draw writes the field as a PNG: a panel for every feature and one with the cosine similarity of every position to the
// centre patch, which is outlined. Blue is negative, light grey zero, red positive, grey not finite.
func (f Field) Draw(w io.Writer) error {
	const perRow = 4
	panels := f.panels()
	rows := (len(panels) + perRow - 1) / perRow
	cols := (len(panels) + rows - 1) / rows
	return HeatMaps(w, slices.Collect(slices.Chunk(panels, cols)))
}

// panels returns the heat maps of Draw.
func (f Field) panels() (panels []HeatMap) {
	for k, name := range f.Names {
		panels = append(panels, f.panel(name, func(i int) float64 { return f.Features[i*len(f.Names)+k] }))
	}
	if f.Vectors != nil {
		row, col, width := f.Rows/2, f.Cols/2, len(f.Vectors)/(f.Rows*f.Cols)
		at := func(i int) []float64 { return f.Vectors[i*width:][:width] }
		centre := at(row*f.Cols + col)
		p := f.panel(fmt.Sprintf("cosine similarity to patch (%d, %d)", row, col), func(i int) float64 {
			if norm := math.Sqrt(floats.Dot(at(i), at(i)) * floats.Dot(centre, centre)); norm != 0 {
				return floats.Dot(at(i), centre) / norm
			}
			return 0
		})
		p.Outlined = &[2]int{row, col}
		panels = append(panels, p)
	}
	if f.Title != "" {
		panels[0].Title = f.Title + ": " + panels[0].Title
	}
	return panels
}

func (f Field) panel(title string, value func(i int) float64) HeatMap {
	h := HeatMap{Title: title, Limit: 1, Down: "row (patches)", Across: "column (patches)"}
	for row := range f.Rows {
		line := make([]float64, f.Cols)
		for col := range line {
			line[col] = value(row*f.Cols + col)
		}
		h.Values = append(h.Values, line)
	}
	return h
}
