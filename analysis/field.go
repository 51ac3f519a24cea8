// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package analysis looks at position encodings: one file per question, each taking plain numbers and returning
// numbers or a picture.
//
// Field answers "what does the encoding know of each patch?": the four features of ℘ and ℘′ over the patch grid, and
// how alike the vector of every position is to that of the centre patch.
package analysis

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// numFeatures is the number of values WePE has per position before projection.
const numFeatures = 4

// featureNames are the panels of a Field, in the order of the features. P stands for ℘, which the font lacks.
var featureNames = [numFeatures]string{"Re P(z)", "Im P(z)", "Re P′(z)", "Im P′(z)"}

// Field is what an encoding holds for each patch of a grid, row-major, row 0 at the top of the image.
type Field struct {
	Title      string
	Rows, Cols int

	// Features are Re ℘, Im ℘, Re ℘′, Im ℘′ of each patch, [Rows·Cols, 4]; nil leaves their panels out.
	Features []float64

	// Limit is the value at which the colours of the features end; what lies beyond has the colour of the end.
	// Zero means 1, where the compressed features end. For raw ℘ choose a few times the median modulus.
	Limit float64

	// Vectors are what the encoding adds to each patch token, [Rows·Cols, width]; nil leaves their panel out.
	Vectors []float64
}

// Sizes of the picture of a field, in points of 1/72 inch, and its resolution.
const (
	panelSide   = vg.Length(140) // the longer side of a feature's panel
	fieldMargin = vg.Length(20)
	titleHeight = vg.Length(38) // title of the field and heading of the first row of panels
	rowGap      = vg.Length(34) // between panels one above the other: column numbers and a heading
	columnGap   = vg.Length(62) // between panels side by side: colour bar, its labels, row numbers
	barWidth    = vg.Length(8)
	dotsPerInch = 120
)

// Draw writes the field as a PNG: the features two by two and, twice as high beside them, the cosine similarity of
// every position to the centre patch, which is outlined. Blue is negative, light grey zero, red positive; values that
// are not finite are dark grey.
func (f Field) Draw(w io.Writer) error {
	panels, err := f.panels()
	if err != nil {
		return err
	}
	cell := panelSide / vg.Length(max(f.Rows, f.Cols))
	size := vg.Point{X: cell * vg.Length(f.Cols), Y: cell * vg.Length(f.Rows)}
	total := 2*size.Y + rowGap
	var areas []vg.Rectangle // with y = 0 at the bottom of the panels
	left := fieldMargin
	if f.Features != nil {
		right := left + size.X + columnGap
		upper := size.Y + rowGap
		for _, corner := range []vg.Point{{X: left, Y: upper}, {X: right, Y: upper}, {X: left}, {X: right}} {
			areas = append(areas, vg.Rectangle{Min: corner, Max: corner.Add(size)})
		}
		left = right + size.X + columnGap
	}
	if f.Vectors != nil {
		width := size.X * total / size.Y
		areas = append(areas, vg.Rectangle{Min: vg.Point{X: left}, Max: vg.Point{X: left + width, Y: total}})
		left += width + columnGap
	}

	canvas := vgimg.NewWith(vgimg.UseDPI(dotsPerInch), vgimg.UseWH(left, total+titleHeight+fieldMargin))
	c := draw.New(canvas)
	write(c, vg.Point{X: fieldMargin, Y: c.Max.Y - 6}, f.Title, 12, align{draw.XLeft, draw.YTop})
	for i, p := range panels {
		p.draw(c, areas[i].Add(vg.Point{Y: fieldMargin}))
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("analysis: %w", err)
	}
	return nil
}

// panels splits a field into its pictures.
func (f Field) panels() ([]panel, error) {
	positions := f.Rows * f.Cols
	if f.Rows < 1 || f.Cols < 1 {
		return nil, fmt.Errorf("analysis: a field of %d rows and %d columns", f.Rows, f.Cols)
	}
	var panels []panel
	if f.Features != nil {
		if len(f.Features) != positions*numFeatures {
			return nil, fmt.Errorf("analysis: %d feature values for a grid of %d rows and %d columns, want %d",
				len(f.Features), f.Rows, f.Cols, positions*numFeatures)
		}
		limit := f.Limit
		if limit == 0 {
			limit = 1
		}
		for k, name := range featureNames {
			p := panel{title: name, rows: f.Rows, cols: f.Cols, limit: limit, values: make([]float64, positions)}
			for i := range p.values {
				p.values[i] = f.Features[i*numFeatures+k]
			}
			panels = append(panels, p)
		}
	}
	if f.Vectors != nil {
		row, col := f.Rows/2, f.Cols/2
		similarity, err := Similarity(f.Vectors, positions, row*f.Cols+col)
		if err != nil {
			return nil, err
		}
		panels = append(panels, panel{title: "cosine to the centre", rows: f.Rows, cols: f.Cols, limit: 1,
			values: similarity, outlined: true, row: row, col: col})
	}
	if len(panels) == 0 {
		return nil, fmt.Errorf("analysis: a field with neither features nor vectors")
	}
	return panels, nil
}

// Similarity returns the cosine between the vector of each position and that of one of them, from vectors
// [positions, width]. A zero vector, as every position of an encoder that adds nothing has, is at cosine 0 to all.
func Similarity(vectors []float64, positions, to int) ([]float64, error) {
	if positions < 1 || len(vectors) == 0 || len(vectors)%positions != 0 {
		return nil, fmt.Errorf("analysis: %d vector values for %d positions", len(vectors), positions)
	}
	if to < 0 || to >= positions {
		return nil, fmt.Errorf("analysis: no position %d among %d", to, positions)
	}
	width := len(vectors) / positions
	at := func(i int) []float64 { return vectors[i*width : (i+1)*width] }
	out := make([]float64, positions)
	for i := range out {
		if norm := math.Sqrt(dot(at(i), at(i)) * dot(at(to), at(to))); norm != 0 {
			out[i] = dot(at(i), at(to)) / norm
		}
	}
	return out, nil
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// panel is one picture over the grid.
type panel struct {
	title      string
	rows, cols int
	values     []float64 // [rows·cols]
	limit      float64   // colours span [-limit, limit]
	outlined   bool      // whether the cell at row, col has a frame
	row, col   int
}

var (
	white = color.Gray{Y: 0xff}
	black = color.Gray{Y: 0x20}
	gone  = color.Gray{Y: 0x80} // a value that is not finite
)

// draw fills an area with the cells and writes title, row and column numbers and the colour bar around it.
func (p panel) draw(c draw.Canvas, area vg.Rectangle) {
	colors := diverging(p.limit)
	cell := area.Size().X / vg.Length(p.cols)
	square := func(row, col int) vg.Rectangle {
		corner := vg.Point{X: area.Min.X + vg.Length(col)*cell, Y: area.Max.Y - vg.Length(row+1)*cell}
		return vg.Rectangle{Min: corner, Max: corner.Add(vg.Point{X: cell, Y: cell})}
	}
	for row := range p.rows {
		for col := range p.cols {
			fill(c, square(row, col), colorOf(colors, p.values[row*p.cols+col]))
		}
	}
	lines := draw.LineStyle{Color: white, Width: min(vg.Points(0.5), cell/12)}
	for row := 1; row < p.rows; row++ {
		y := area.Max.Y - vg.Length(row)*cell
		c.StrokeLine2(lines, area.Min.X, y, area.Max.X, y)
	}
	for col := 1; col < p.cols; col++ {
		x := area.Min.X + vg.Length(col)*cell
		c.StrokeLine2(lines, x, area.Min.Y, x, area.Max.Y)
	}
	frame(c, area, vg.Points(0.5))
	if p.outlined {
		frame(c, square(p.row, p.col), vg.Points(1.5))
	}

	middle := vg.Point{X: (area.Min.X + area.Max.X) / 2, Y: area.Max.Y + 4}
	write(c, middle, p.title, 10, align{draw.XCenter, draw.YBottom})
	for _, row := range ends(p.rows) {
		y := area.Max.Y - (vg.Length(row)+0.5)*cell
		write(c, vg.Point{X: area.Min.X - 3, Y: y}, fmt.Sprint(row), 7, align{draw.XRight, draw.YCenter})
	}
	for _, col := range ends(p.cols) {
		x := area.Min.X + (vg.Length(col)+0.5)*cell
		write(c, vg.Point{X: x, Y: area.Min.Y - 3}, fmt.Sprint(col), 7, align{draw.XCenter, draw.YTop})
	}
	p.drawBar(c, colors, vg.Rectangle{
		Min: vg.Point{X: area.Max.X + barWidth, Y: area.Min.Y},
		Max: vg.Point{X: area.Max.X + 2*barWidth, Y: area.Max.Y}})
}

// drawBar draws the scale of the colours.
func (p panel) drawBar(c draw.Canvas, colors palette.ColorMap, bar vg.Rectangle) {
	const steps = 64
	height := bar.Size().Y / steps
	for i := range steps {
		low := bar.Min.Y + vg.Length(i)*height // up to the top, so that no seam shows between two steps
		fill(c, vg.Rectangle{Min: vg.Point{X: bar.Min.X, Y: low}, Max: bar.Max},
			colorOf(colors, p.limit*(2*(float64(i)+0.5)/steps-1)))
	}
	frame(c, bar, vg.Points(0.5))
	for _, at := range []float64{-1, 0, 1} {
		y := (bar.Min.Y+bar.Max.Y)/2 + vg.Length(at)*bar.Size().Y/2
		label := fmt.Sprintf("%.3g", at*p.limit)
		write(c, vg.Point{X: bar.Max.X + 3, Y: y}, label, 7, align{draw.XLeft, draw.YCenter})
	}
}

// diverging is Moreland's blue-grey-red map (2009), which colour-blind readers can tell apart.
func diverging(limit float64) palette.ColorMap {
	colors := moreland.SmoothBlueRed()
	colors.SetMin(-limit)
	colors.SetMax(limit)
	return colors
}

func colorOf(colors palette.ColorMap, value float64) color.Color {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return gone
	}
	clr, err := colors.At(max(colors.Min(), min(colors.Max(), value)))
	if err != nil {
		return gone
	}
	return clr
}

// ends are the indices that are written beside an axis of n cells: the first, the middle and the last.
func ends(n int) []int {
	switch {
	case n == 1:
		return []int{0}
	case n < 5:
		return []int{0, n - 1}
	}
	return []int{0, n / 2, n - 1}
}

func fill(c draw.Canvas, r vg.Rectangle, clr color.Color) {
	c.SetColor(clr)
	c.Fill(r.Path())
}

func frame(c draw.Canvas, r vg.Rectangle, width vg.Length) {
	c.SetColor(black)
	c.SetLineWidth(width)
	c.SetLineDash(nil, 0)
	c.Stroke(r.Path())
}

// fonts are embedded in the program, so a picture looks the same on every machine.
var fonts = text.Plain{Fonts: font.NewCache(liberation.Collection())}

// align says which point of a text stands at the given place.
type align struct {
	x text.XAlignment
	y text.YAlignment
}

func write(c draw.Canvas, at vg.Point, s string, size vg.Length, to align) {
	c.FillText(draw.TextStyle{Color: black, Handler: fonts, XAlign: to.x, YAlign: to.y,
		Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}}, at, s)
}
