// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"math"

	"gonum.org/v1/gonum/floats"
)

// Field is what an encoding holds for each patch of a grid, row-major, row 0 at the top of the image.
type Field struct {
	Title      string
	Rows, Cols int

	// Features are the values of each patch before projection, [Rows·Cols, features]; nil leaves their panels out.
	Features []float64
	Names    []string // of the features; nil numbers them, but for the four of ℘ and ℘′

	// Limit is the value at which the colours of the features end; what lies beyond has the colour of the end.
	// Zero means 1, where the compressed features of WePE end. For raw ℘ choose a few times the median modulus.
	Limit float64

	// Vectors are what the encoding adds to each patch token, [Rows·Cols, width]; nil leaves their panel out.
	Vectors []float64
}

// elliptic are the features of ℘ and ℘′. P stands for ℘, which the font lacks.
var elliptic = []string{"Re P(z)", "Im P(z)", "Re P′(z)", "Im P′(z)"}

// Draw writes the field as a PNG: a panel for every feature and one with the cosine similarity of every position to the
// centre patch, which is outlined. Blue is negative, light grey zero, red positive; values that are not finite are
// grey.
func (f Field) Draw(w io.Writer) error {
	panels, err := f.panels()
	if err != nil {
		return err
	}
	const perRow = 4
	var rows [][]HeatMap
	for len(panels) > perRow {
		rows, panels = append(rows, panels[:perRow]), panels[perRow:]
	}
	if len(rows) > 0 {
		panels = append(panels, make([]HeatMap, perRow-len(panels))...)
	}
	return HeatMaps(w, append(rows, panels))
}

// panels are the heat maps that Draw draws.
func (f Field) panels() (panels []HeatMap, err error) {
	positions := f.Rows * f.Cols
	if f.Rows < 1 || f.Cols < 1 {
		return nil, fmt.Errorf("report: a field of %d rows and %d columns", f.Rows, f.Cols)
	}
	if f.Features == nil && f.Vectors == nil {
		return nil, fmt.Errorf("report: a field with neither features nor vectors")
	}
	panel := func(title string, limit float64, value func(i int) float64) HeatMap {
		h := HeatMap{Title: fmt.Sprintf("%s, ±%g", title, limit), Limit: limit, Down: "row (patches)",
			Across: "column (patches)"}
		for row := range f.Rows {
			line := make([]float64, f.Cols)
			for col := range line {
				line[col] = value(row*f.Cols + col)
			}
			h.Values = append(h.Values, line)
		}
		return h
	}
	if f.Features != nil {
		names := f.Names
		n := len(f.Features) / positions
		if names == nil && n == len(elliptic) {
			names = elliptic
		}
		for k := len(names); f.Names == nil && k < n; k++ {
			names = append(names, fmt.Sprintf("feature %d", k+1))
		}
		if n == 0 || len(f.Features) != positions*len(names) {
			return nil, fmt.Errorf("report: %d feature values for a grid of %d rows and %d columns and %d names",
				len(f.Features), f.Rows, f.Cols, len(names))
		}
		limit := f.Limit
		if limit == 0 {
			limit = 1
		}
		for k, name := range names {
			panels = append(panels, panel(name, limit, func(i int) float64 { return f.Features[i*n+k] }))
		}
	}
	if f.Vectors != nil {
		row, col := f.Rows/2, f.Cols/2
		similarity, err := Similarity(f.Vectors, positions, row*f.Cols+col)
		if err != nil {
			return nil, err
		}
		p := panel("cosine similarity to the centre", 1, func(i int) float64 { return similarity[i] })
		p.Outlined = &[2]int{row, col}
		panels = append(panels, p)
	}
	if f.Title != "" {
		panels[0].Title = f.Title + ": " + panels[0].Title
	}
	return panels, nil
}

// Similarities returns the cosines between all positions, [positions, positions], as Similarity.
func Similarities(vectors []float64, positions int) ([]float64, error) {
	out := make([]float64, 0, positions*positions)
	for i := range positions {
		row, err := Similarity(vectors, positions, i)
		if err != nil {
			return nil, err
		}
		out = append(out, row...)
	}
	return out, nil
}

// Similarity returns the cosine between the vector of each position and that of one of them, from vectors
// [positions, width]. A zero vector, as every position of an encoder that adds nothing has, is at cosine 0 to all.
func Similarity(vectors []float64, positions, to int) ([]float64, error) {
	if positions < 1 || len(vectors) == 0 || len(vectors)%positions != 0 {
		return nil, fmt.Errorf("report: %d vector values for %d positions", len(vectors), positions)
	}
	if to < 0 || to >= positions {
		return nil, fmt.Errorf("report: no position %d among %d", to, positions)
	}
	width := len(vectors) / positions
	at := func(i int) []float64 { return vectors[i*width : (i+1)*width] }
	out := make([]float64, positions)
	for i := range out {
		if norm := math.Sqrt(floats.Dot(at(i), at(i)) * floats.Dot(at(to), at(to))); norm != 0 {
			out[i] = floats.Dot(at(i), at(to)) / norm
		}
	}
	return out, nil
}
