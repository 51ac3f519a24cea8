// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// dotsPerInch is the resolution of the PNG form of all pictures, whose sizes are in points of 1/72 inch.
const dotsPerInch = 120

// figure is a picture before its format is chosen.
type figure struct {
	width, height vg.Length
	draw          func(draw.Canvas)
}

func (f figure) png(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(f.width, f.height), vgimg.UseDPI(dotsPerInch))
	f.draw(draw.New(canvas))
	return written(vgimg.PngCanvas{Canvas: canvas}.WriteTo(w))
}

// svg writes a file of its own, on white.
func (f figure) svg(w io.Writer) error {
	text, err := f.vector(color.White)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return written(0, err)
}

// inline returns an svg element to stand in a page, whose ground shows.
func (f figure) inline() (string, error) {
	text, err := f.vector(color.Transparent)
	_, element, _ := strings.Cut(text, "<svg") // what is before is the prologue of a file
	return "<svg" + element, err
}

func (f figure) vector(ground color.Color) (string, error) {
	canvas := &fitted{Canvas: vgsvg.New(f.width, f.height)}
	c := draw.New(canvas)
	if ground != color.Transparent {
		fill(c, c.Rectangle, ground)
	}
	f.draw(c)
	var text strings.Builder
	err := written(canvas.WriteTo(&text))
	return canvas.fit(text.String()), err
}

// fitted is a canvas that remembers how long its texts are. A reader's machine may lack the font they are drawn in;
// another one is told to take as much room, so that nothing overlaps.
type fitted struct {
	*vgsvg.Canvas
	widths []vg.Length
}

// FillString implements vg.Canvas.
func (f *fitted) FillString(face font.Face, at vg.Point, text string) {
	f.widths = append(f.widths, face.Width(text))
	f.Canvas.FillString(face, at, text)
}

// fit writes the widths into what the canvas wrote, whose texts cannot hold a "<".
func (f *fitted) fit(svg string) string {
	const begin = "<text "
	parts := strings.Split(svg, begin)
	for i, width := range f.widths {
		if width > 0 {
			parts[i+1] = fmt.Sprintf(`textLength="%.5g" lengthAdjust="spacingAndGlyphs" `, float64(width)) + parts[i+1]
		}
	}
	const liberation = "font-family:Liberation Sans"
	return strings.ReplaceAll(strings.Join(parts, begin), liberation+";", liberation+",Arimo,Arial,Helvetica,sans-serif;")
}

func written(_ int64, err error) error {
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// plotted is a figure of plots in rows, their axes in line.
func plotted(width, height vg.Length, plots [][]*plot.Plot) figure {
	return figure{width, height, func(c draw.Canvas) {
		tiles := draw.Tiles{Rows: len(plots), Cols: len(plots[0]), PadX: vg.Points(18), PadY: vg.Points(12),
			PadTop: vg.Points(8), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(6)}
		for row, areas := range plot.Align(plots, tiles, c) {
			for col, p := range plots[row] {
				if p != nil {
					p.Draw(areas[col])
				}
			}
		}
	}}
}

func fill(c draw.Canvas, area vg.Rectangle, clr color.Color) {
	c.SetColor(clr)
	c.Fill(area.Path())
}
