// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
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
	Vectors  []float64 // [Rows·Cols, width] added to each patch token; nil omits their panel
}

// Draw writes the field as a PNG: a panel for every feature and one with the cosine similarity of every position to the
// centre patch, which is outlined. Blue is negative, light grey zero, red positive, grey not finite.
func (f Field) Draw(w io.Writer) error {
	const perRow = 4
	panels := f.panels()
	for len(panels) > perRow && len(panels)%perRow > 0 {
		panels = append(panels, HeatMap{})
	}
	return HeatMaps(w, slices.Collect(slices.Chunk(panels, perRow)))
}

// panels returns the heat maps of Draw.
func (f Field) panels() (panels []HeatMap) {
	for k, name := range f.Names {
		panels = append(panels, f.panel(name, func(i int) float64 { return f.Features[i*len(f.Names)+k] }))
	}
	if f.Vectors != nil {
		row, col := f.Rows/2, f.Cols/2
		cosines := similarity(f.Vectors, f.Rows*f.Cols, row*f.Cols+col)
		p := f.panel("cosine similarity to the centre", func(i int) float64 { return cosines[i] })
		p.Outlined = &[2]int{row, col}
		panels = append(panels, p)
	}
	if f.Title != "" {
		panels[0].Title = f.Title + ": " + panels[0].Title
	}
	return panels
}

func (f Field) panel(title string, value func(i int) float64) HeatMap {
	h := HeatMap{Title: title + ", ±1", Limit: 1, Down: "row (patches)", Across: "column (patches)"}
	for row := range f.Rows {
		line := make([]float64, f.Cols)
		for col := range line {
			line[col] = value(row*f.Cols + col)
		}
		h.Values = append(h.Values, line)
	}
	return h
}

// Similarities returns the cosines between the vectors [positions, width] of all positions, [positions, positions]. The
// cosine with a zero vector is 0.
func Similarities(vectors []float64, positions int) []float64 {
	out := make([]float64, 0, positions*positions)
	for i := range positions {
		out = append(out, similarity(vectors, positions, i)...)
	}
	return out
}

// similarity returns one row of Similarities.
func similarity(vectors []float64, positions, to int) []float64 {
	width := len(vectors) / positions
	at := func(i int) []float64 { return vectors[i*width : (i+1)*width] }
	out := make([]float64, positions)
	for i := range out {
		if norm := math.Sqrt(floats.Dot(at(i), at(i)) * floats.Dot(at(to), at(to))); norm != 0 {
			out[i] = floats.Dot(at(i), at(to)) / norm
		}
	}
	return out
}
