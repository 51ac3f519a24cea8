// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Line is one of a picture of Lines. Values that are not finite leave a gap.
type Line struct {
	Name      string
	X, Y      []float64
	Low, High []float64 // of a band around it; nil for none
}

// Lines draws lines as a PNG, those of one name in one colour and with one place in the legend.
func Lines(w io.Writer, title, xLabel, yLabel string, lines []Line) error {
	p := newPlot(title, yLabel)
	p.X.Label.Text, p.Legend.ThumbnailWidth = xLabel, vg.Points(10)
	colors := map[string]color.NRGBA{}
	for _, l := range lines {
		clr, named := colors[l.Name]
		if !named {
			clr = palette[len(colors)%len(palette)]
			colors[l.Name] = clr
		}
		style := draw.LineStyle{Color: clr, Width: vg.Points(1.6)}
		if len(colors) > len(palette) {
			style.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		if l.Low != nil {
			clr.A = 0x28
			var around plotter.XYs
			for i, x := range l.X {
				if finite(l.High[i]) {
					around = append(around, plotter.XY{X: x, Y: l.High[i]})
				}
			}
			for i := len(l.X) - 1; i >= 0; i-- {
				if finite(l.Low[i]) {
					around = append(around, plotter.XY{X: l.X[i], Y: l.Low[i]})
				}
			}
			if len(around) > 2 {
				p.Add(&plotter.Polygon{XYs: []plotter.XYs{around}, Color: clr})
			}
		}
		var part plotter.XYs
		for i, x := range l.X {
			if finite(l.Y[i]) {
				part = append(part, plotter.XY{X: x, Y: l.Y[i]})
				continue
			}
			addLine(p, part, style)
			part = nil
		}
		addLine(p, part, style)
		if !named {
			p.Legend.Add(l.Name, &plotter.Line{LineStyle: style})
		}
	}
	return drawPlots(w, curvesWidth/2, curvesHeight, [][]*plot.Plot{{p}})
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Cloud is a picture of points, coloured by a value: from blue at the least to red at the greatest.
type Cloud struct {
	Title       string
	X, Y, Value []float64
}

// Clouds draws clouds side by side as a PNG.
func Clouds(w io.Writer, clouds []Cloud) error {
	plots := make([]*plot.Plot, len(clouds))
	colors := moreland.SmoothBlueRed()
	for i, c := range clouds {
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range c.Value {
			low, high = min(low, v), max(high, v)
		}
		colors.SetMin(low)
		colors.SetMax(max(high, low+1e-9))
		dots := &plotter.Scatter{GlyphStyleFunc: func(k int) draw.GlyphStyle {
			clr, err := colors.At(c.Value[k])
			if err != nil {
				clr = notFinite
			}
			return draw.GlyphStyle{Color: clr, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
		}}
		p := newPlot(c.Title, "")
		for k, x := range c.X {
			if finite(x) && finite(c.Y[k]) {
				dots.XYs = append(dots.XYs, plotter.XY{X: x, Y: c.Y[k]})
			}
		}
		p.X.Label.Text = ""
		p.Add(dots)
		plots[i] = p
	}
	return drawPlots(w, 3.2*vg.Inch*vg.Length(len(clouds)), 3*vg.Inch, [][]*plot.Plot{plots})
}
