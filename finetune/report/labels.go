// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// endLabels writes the name of each curve to the right of its last point, moved apart where they would overlap: a
// reader need not match colours with a legend.
type endLabels struct {
	labels []endLabel
}

type endLabel struct {
	text  string
	at    plotter.XY
	color color.Color
}

var (
	_ plot.Plotter    = (*endLabels)(nil)
	_ plot.GlyphBoxer = (*endLabels)(nil)
	_ plot.Plotter    = heading("")
	_ plot.GlyphBoxer = heading("")
)

// labelGap is between the right edge of the data and the text.
const labelGap = vg.Length(4)

func (l *endLabels) add(name, verb string, at plotter.XY, clr color.Color) {
	if !math.IsNaN(at.Y) {
		l.labels = append(l.labels, endLabel{name + " " + fmt.Sprintf(verb, at.Y), at, clr})
	}
}

func labelStyle(p *plot.Plot, clr color.Color) draw.TextStyle {
	return draw.TextStyle{
		Color:   clr,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(9)},
		YAlign:  draw.YCenter,
		Handler: p.TextHandler,
	}
}

// Plot implements plot.Plotter.
func (l *endLabels) Plot(c draw.Canvas, p *plot.Plot) {
	if len(l.labels) == 0 {
		return
	}
	_, y := p.Transforms(&c)
	labels := slices.Clone(l.labels)
	slices.SortStableFunc(labels, func(a, b endLabel) int { return int(math.Copysign(1, a.at.Y-b.at.Y)) })
	heights := make([]vg.Length, len(labels))
	for i, label := range labels {
		heights[i] = y(label.at.Y)
	}
	style := labelStyle(p, color.Black)
	spread(heights, 1.15*style.Height(labels[0].text))
	for i, label := range labels {
		c.FillText(labelStyle(p, label.color), vg.Point{X: c.Max.X + labelGap, Y: heights[i]}, label.text)
	}
}

// GlyphBoxes implements plot.GlyphBoxer: it asks for room at the right edge.
func (l *endLabels) GlyphBoxes(p *plot.Plot) []plot.GlyphBox {
	var boxes []plot.GlyphBox
	for _, label := range l.labels {
		width := labelStyle(p, label.color).Width(label.text)
		boxes = append(boxes, plot.GlyphBox{
			X: 1, Y: p.Y.Norm(label.at.Y), Rectangle: vg.Rectangle{Max: vg.Point{X: width + 2*labelGap}}})
	}
	return boxes
}

// spread moves ascending heights apart until neighbours differ by gap, each cluster staying centred on where its
// members wanted to be.
func spread(heights []vg.Length, gap vg.Length) {
	type cluster struct {
		sum   vg.Length // of the bottoms the members would give the cluster
		count int
	}
	var clusters []cluster
	bottom := func(c cluster) vg.Length { return c.sum / vg.Length(c.count) }
	for _, height := range heights {
		next := cluster{height, 1}
		for len(clusters) > 0 {
			below := clusters[len(clusters)-1]
			if bottom(next) >= bottom(below)+gap*vg.Length(below.count) {
				break
			}
			shift := gap * vg.Length(below.count)
			next = cluster{below.sum + next.sum - shift*vg.Length(next.count), below.count + next.count}
			clusters = clusters[:len(clusters)-1]
		}
		clusters = append(clusters, next)
	}
	i := 0
	for _, c := range clusters {
		for k := range c.count {
			heights[i] = bottom(c) + gap*vg.Length(k)
			i++
		}
	}
}

// heading is a title that stands right above the data, so that those of plots side by side are in line; gonum's stand
// at the edge of each picture.
type heading string

// headingGap is between the upper edge of the data and the text.
const headingGap = vg.Length(9)

// Plot implements plot.Plotter.
func (h heading) Plot(c draw.Canvas, _ *plot.Plot) {
	title := style(12)
	title.XAlign, title.YAlign = draw.XCenter, draw.YBottom
	c.FillText(title, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Max.Y + headingGap}, string(h))
}

// GlyphBoxes implements plot.GlyphBoxer: it asks for room above the data.
func (h heading) GlyphBoxes(*plot.Plot) []plot.GlyphBox {
	room := vg.Rectangle{Max: vg.Point{Y: headingGap + style(12).Height(string(h))}}
	return []plot.GlyphBox{{X: 0.5, Y: 1, Rectangle: room}}
}
