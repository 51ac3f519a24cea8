// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Figure is a picture with a title and a sentence that says what it shows.
type Figure struct {
	Title, Caption string
	PNG            []byte
}

// dotsPerInch is the resolution of all pictures, whose sizes are in points of 1/72 inch.
const dotsPerInch = 120

// drawPlots writes plots in rows, their axes in line, as a PNG of the given size.
func drawPlots(w io.Writer, width, height vg.Length, plots [][]*plot.Plot) error {
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))
	c := draw.New(canvas)
	tiles := draw.Tiles{Rows: len(plots), Cols: len(plots[0]), PadX: vg.Points(18), PadY: vg.Points(12),
		PadTop: vg.Points(8), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(12)}
	for row, areas := range plot.Align(plots, tiles, c) {
		for col, p := range plots[row] {
			if p != nil {
				p.Draw(areas[col])
			}
		}
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// newPlot is an empty plot over steps in the style of all curves.
func newPlot(title, yLabel string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "step", yLabel
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, ticks{}
	p.Legend.Top, p.Legend.Left, p.Legend.ThumbnailWidth = true, false, vg.Points(14)
	sans(p)
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	grid.Horizontal.Color = color.Gray{Y: 0xe0}
	p.Add(grid)
	return p
}

// sans sets all text of a plot in the sans-serif that is embedded in the program, so that a picture looks the same on
// every machine.
func sans(p *plot.Plot) {
	for _, style := range []*draw.TextStyle{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = vg.Points(12)
	p.Legend.TextStyle.Font.Size = vg.Points(9)
}

// ticks are gonum's, with as many decimals as tell them apart: gonum writes four digits, whatever the step.
type ticks struct{ plot.DefaultTicks }

// Ticks implements plot.Ticker.
func (t ticks) Ticks(low, high float64) []plot.Tick {
	all := t.DefaultTicks.Ticks(low, high)
	decimals := 0
	for _, tick := range all {
		for !tick.IsMinor() && decimals < 12 {
			shift := tick.Value * math.Pow10(decimals)
			if math.Abs(shift-math.Round(shift)) < 1e-3*(high-low)*math.Pow10(decimals) {
				break
			}
			decimals++
		}
	}
	for i := range all {
		if !all[i].IsMinor() {
			rounded := math.Round(all[i].Value*math.Pow10(decimals)) / math.Pow10(decimals)
			all[i].Label = strconv.FormatFloat(rounded+0, 'f', decimals, 64) // -0 + 0 is 0
		}
	}
	return all
}
