// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"
	"unicode"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes in the picture of a Confusion.
const (
	heatSide     = vg.Length(480) // of the matrix, while its cells are between the next two sizes
	largestCell  = vg.Length(60)
	smallestName = vg.Length(7) // a cell that leaves room to write the name of its class
	heatGap      = vg.Length(6)
	heatMargin   = vg.Length(10)
	heatBar      = vg.Length(10)
	longestName  = 22 // letters
	mostNumbers  = 12 // classes, up to which the cells have room for numbers
)

var (
	ink      = color.Gray{Y: 0x20}
	diagonal = color.Gray{Y: 0xe4}
	hairline = color.Gray{Y: 0xd8}
)

// Draw writes the picture of a confusion as a PNG: row by row the share of a class's images that was called each other
// class. What was called right is on the diagonal, in grey so that it does not outshine the mistakes, and beside it as
// the number of percent. Readable up to about 150 classes; beyond, the cells have no names.
func (c Confusion) Draw(w io.Writer, title string) error {
	f, err := c.figure(title)
	if err != nil {
		return err
	}
	return f.png(w)
}

// DrawSVG is Draw as an SVG.
func (c Confusion) DrawSVG(w io.Writer, title string) error {
	f, err := c.figure(title)
	if err != nil {
		return err
	}
	return f.svg(w)
}

// heatmap is the layout of the picture.
type heatmap struct {
	Confusion
	title         string
	shares        [][]float64
	limit         float64 // share with the darkest colour
	names         []string
	cell, letters vg.Length // sizes of a cell and of the names
	named         bool
	upright       bool // whether the names of columns stand on end
	left, below   vg.Length
	right         vg.Length // between the matrix and the bar
	above         vg.Length
	width, height vg.Length
}

func (c Confusion) figure(title string) (figure, error) {
	if err := c.validate(); err != nil {
		return figure{}, err
	}
	h := heatmap{Confusion: c, title: title, shares: c.shares(), above: 18}
	h.limit = scale(h.shares)
	if title != "" {
		h.above = 36
	}
	n := vg.Length(len(c.Classes))
	h.cell = min(largestCell, heatSide/n)
	if h.cell < smallestName {
		h.cell = max(heatSide/n, min(smallestName, 1050/n))
	}
	h.named = h.cell >= smallestName
	h.letters = min(10, 0.88*h.cell)
	widest := vg.Length(0)
	for _, name := range c.Classes {
		name = short(name)
		h.names = append(h.names, name)
		widest = max(widest, style(h.letters).Width(name))
	}
	h.upright = widest > h.cell-8
	h.left, h.below, h.right = heatMargin+16, heatMargin+16, 2*heatGap
	if h.named {
		h.left += widest + heatGap
		h.below += heatGap + h.letters
		if h.upright {
			h.below += widest - h.letters
		}
		if len(c.Classes) > mostNumbers {
			h.right += style(h.letters).Width("100") + heatGap
		}
	}
	h.width = max(h.left+n*h.cell+h.right+heatBar+40, 2*heatMargin+style(12).Width(title))
	h.height = h.below + n*h.cell + h.above
	return figure{h.width, h.height, h.draw}, nil
}

// scale is the share of the darkest colour: the largest share of a mistake, rounded up to 1, 2 or 5 times a power of
// ten.
func scale(shares [][]float64) float64 {
	largest := 0.001
	for class, row := range shares {
		for predicted, share := range row {
			if class != predicted && share > largest { // false for NaN
				largest = share
			}
		}
	}
	power := math.Pow(10, math.Floor(math.Log10(largest)))
	for _, step := range []float64{1, 2, 5} {
		if largest <= step*power*(1+1e-9) {
			return step * power
		}
	}
	return 10 * power
}

// area is the place of a cell: the first class is at the top and at the left.
func (h heatmap) area(class, predicted int) vg.Rectangle {
	corner := vg.Point{X: h.left + vg.Length(predicted)*h.cell, Y: h.below + vg.Length(len(h.Counts)-1-class)*h.cell}
	return vg.Rectangle{Min: corner, Max: corner.Add(vg.Point{X: h.cell, Y: h.cell})}
}

func (h heatmap) draw(c draw.Canvas) {
	n := len(h.Counts)
	matrix := vg.Rectangle{Min: h.area(n-1, 0).Min, Max: h.area(0, n-1).Max}
	fill(c, matrix, color.White)
	for class := range h.Counts {
		for predicted := range h.Counts {
			h.drawCell(c, class, predicted)
		}
	}
	every := 1
	if n > 30 {
		every = 10
	}
	lines := draw.LineStyle{Color: hairline, Width: vg.Points(0.4)}
	for i := every; i < n; i += every {
		corner := h.area(i, i)
		c.StrokeLine2(lines, corner.Min.X, matrix.Min.Y, corner.Min.X, matrix.Max.Y)
		c.StrokeLine2(lines, matrix.Min.X, corner.Max.Y, matrix.Max.X, corner.Max.Y)
	}
	c.StrokeLines(draw.LineStyle{Color: color.Black, Width: vg.Points(0.5)}, []vg.Point{matrix.Min,
		{X: matrix.Max.X, Y: matrix.Min.Y}, matrix.Max, {X: matrix.Min.X, Y: matrix.Max.Y}, matrix.Min})
	h.drawNames(c, matrix)
	h.drawBar(c, matrix)
}

func (h heatmap) drawCell(c draw.Canvas, class, predicted int) {
	share := h.shares[class][predicted]
	clr, letters := color.Color(diagonal), color.Color(ink)
	switch {
	case class == predicted:
	case h.Counts[class][predicted] == 0:
		return
	default:
		clr = heat(share / h.limit)
		if share/h.limit > 0.6 {
			letters = color.White
		}
	}
	area := h.area(class, predicted)
	fill(c, area, clr)
	if len(h.Counts) > mostNumbers {
		return
	}
	s := style(h.letters)
	s.Color, s.XAlign, s.YAlign = letters, draw.XCenter, draw.YCenter
	c.FillText(s, middle(area), percent(Number(share), 1))
}

func middle(r vg.Rectangle) vg.Point {
	return vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}
}

// drawNames writes the title, the classes and beside each row how much of it is right.
func (h heatmap) drawNames(c draw.Canvas, matrix vg.Rectangle) {
	s := style(12)
	s.YAlign = draw.YTop
	c.FillText(s, vg.Point{X: heatMargin, Y: h.height - heatGap}, h.title)
	s = style(10)
	s.XAlign = draw.XCenter
	c.FillText(s, vg.Point{X: middle(matrix).X, Y: heatMargin}, "called")
	s.Rotation = math.Pi / 2
	s.YAlign = draw.YTop
	c.FillText(s, vg.Point{X: heatMargin, Y: middle(matrix).Y}, "class")
	if !h.named {
		return
	}
	right := matrix.Max.X + h.right - 2*heatGap
	if len(h.names) > mostNumbers {
		head := style(8)
		head.XAlign = draw.XRight
		c.FillText(head, vg.Point{X: right, Y: matrix.Max.Y + 4}, "right %")
	}
	for i, name := range h.names {
		at := middle(h.area(i, i))
		row := style(h.letters)
		row.XAlign, row.YAlign = draw.XRight, draw.YCenter
		c.FillText(row, vg.Point{X: matrix.Min.X - heatGap, Y: at.Y}, name)
		column := style(h.letters)
		column.XAlign, column.YAlign = draw.XCenter, draw.YTop
		if h.upright {
			column.Rotation, column.XAlign, column.YAlign = math.Pi/2, draw.XRight, draw.YCenter
		}
		c.FillText(column, vg.Point{X: at.X, Y: matrix.Min.Y - heatGap}, name)
		if len(h.names) > mostNumbers {
			c.FillText(row, vg.Point{X: right, Y: at.Y}, percent(Number(h.shares[i][i]), 0))
		}
	}
}

// drawBar draws the scale of the colours.
func (h heatmap) drawBar(c draw.Canvas, matrix vg.Rectangle) {
	const steps = 50
	bar := vg.Rectangle{Min: vg.Point{X: matrix.Max.X + h.right, Y: max(matrix.Min.Y, matrix.Max.Y-200)},
		Max: vg.Point{X: matrix.Max.X + h.right + heatBar, Y: matrix.Max.Y}}
	for i := range steps {
		low := bar.Min.Y + vg.Length(i)*bar.Size().Y/steps // up to the top, so that no seam shows between two steps
		fill(c, vg.Rectangle{Min: vg.Point{X: bar.Min.X, Y: low}, Max: bar.Max}, heat((float64(i)+0.5)/steps))
	}
	s := style(8)
	s.YAlign = draw.YCenter
	for _, part := range []float64{0, 0.5, 1} {
		at := vg.Point{X: bar.Max.X + 4, Y: bar.Min.Y + vg.Length(part)*bar.Size().Y}
		c.FillText(s, at, fmt.Sprintf("%.3g %%", 100*part*h.limit))
	}
}

// heat is the colour of a part of the scale, from pale orange over the palette's vermillion to brown: ever darker, so
// that it also works in grey and for colour-blind readers.
func heat(t float64) color.NRGBA {
	stops := []color.NRGBA{{0xff, 0xf1, 0xe0, 0xff}, {0xf7, 0xa9, 0x5a, 0xff}, {0xd5, 0x5e, 0x00, 0xff},
		{0x5c, 0x1d, 0x00, 0xff}}
	t = max(0, min(1, t)) * float64(len(stops)-1)
	i := min(int(t), len(stops)-2)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (t-float64(i))*(float64(b)-float64(a)))) }
	a, b := stops[i], stops[i+1]
	return color.NRGBA{R: mix(a.R, b.R), G: mix(a.G, b.G), B: mix(a.B, b.B), A: 0xff}
}

// short is a name of one line that leaves room for the matrix.
func short(name string) string {
	letters := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, name))
	if len(letters) > longestName {
		return string(letters[:longestName-1]) + "…"
	}
	return string(letters)
}

// fonts are embedded in the program, so a picture looks the same on every machine.
var fonts = text.Plain{Fonts: font.NewCache(liberation.Collection())}

func style(size vg.Length) draw.TextStyle {
	return draw.TextStyle{Color: color.Black, Handler: fonts,
		Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}}
}
