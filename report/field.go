// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"math"

	"gonum.org/v1/gonum/floats"
)

// Field is a position encoding over a grid of patches, row-major, row 0 at the top of the image.
type Field struct {
	Title      string
	Rows, Cols int

	Features []float64 // [Rows·Cols, features] before projection, in [-1, 1]; nil leaves their panels out
	Names    []string  // of the features; nil numbers them, except the four of ℘ and ℘′
	Vectors  []float64 // [Rows·Cols, width] added to each patch token; nil leaves their panel out
}

// elliptic are the features of ℘ and ℘′. P stands for ℘, which the font lacks.
var elliptic = []string{"Re P(z)", "Im P(z)", "Re P′(z)", "Im P′(z)"}

// Draw writes the field as a PNG: a panel for every feature and one with the cosine similarity of every position to the
// centre patch, which is outlined. Blue is negative, light grey zero, red positive, grey not finite.
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
	if f.Features != nil {
		n, names := len(f.Features)/positions, f.Names
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
		for k, name := range names {
			panels = append(panels, f.panel(name, func(i int) float64 { return f.Features[i*n+k] }))
		}
	}
	if f.Vectors != nil {
		row, col := f.Rows/2, f.Cols/2
		cosines, err := similarity(f.Vectors, positions, row*f.Cols+col)
		if err != nil {
			return nil, err
		}
		p := f.panel("cosine similarity to the centre", func(i int) float64 { return cosines[i] })
		p.Outlined = &[2]int{row, col}
		panels = append(panels, p)
	}
	if f.Title != "" {
		panels[0].Title = f.Title + ": " + panels[0].Title
	}
	return panels, nil
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
func Similarities(vectors []float64, positions int) ([]float64, error) {
	out := make([]float64, 0, positions*positions)
	for i := range positions {
		row, err := similarity(vectors, positions, i)
		if err != nil {
			return nil, err
		}
		out = append(out, row...)
	}
	return out, nil
}

// similarity returns one row of Similarities.
func similarity(vectors []float64, positions, to int) ([]float64, error) {
	if positions < 1 || len(vectors) == 0 || len(vectors)%positions != 0 {
		return nil, fmt.Errorf("report: %d vector values for %d positions", len(vectors), positions)
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
