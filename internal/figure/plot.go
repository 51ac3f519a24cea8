// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package figure draws plots, heat maps and grids of images as PNG, in one style.
package figure

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// dotsPerInch is the resolution of all figures; their sizes are in points of 1/72 inch.
const dotsPerInch = 120

// Sizes of a plot: Large beside at most one other, Small one of several panels.
var (
	Large = vg.Point{X: 5.5 * vg.Inch, Y: 4.5 * vg.Inch}
	Small = vg.Point{X: 4 * vg.Inch, Y: 2.7 * vg.Inch}
)

// palette are the colours of Okabe and Ito (2008), which colour-blind readers can distinguish, without yellow, which is
// too light for a line on white, and then grey and two colours of Tol's muted scheme (2021).
var palette = []color.NRGBA{
	{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, // blue
	{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}, // vermillion
	{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, // bluish green
	{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, // reddish purple
	{R: 0x40, G: 0x40, B: 0x40, A: 0xff}, // dark grey
	{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, // orange
	{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, // sky blue
	{R: 0x99, G: 0x99, B: 0x99, A: 0xff}, // grey
	{R: 0x88, G: 0x22, B: 0x55, A: 0xff}, // wine
	{R: 0x99, G: 0x99, B: 0x33, A: 0xff}, // olive
}

// encodings have the colours of their places in palette, in every plot.
var encodings = []string{"learned", "rope-mixed", "wepe", "wepe-sphere", "fourier-v", "wepe-v", "sincos2d", "none",
	"rope-dinov3"}

// colours returns the places in palette of lines, by name: an encoding, perhaps with more after a comma, has its own,
// and other names take what the plot leaves, beside an encoding from the end. Further names have further places.
func colours(lines []Line) map[string]int {
	places, free := map[string]int{}, make([]int, len(palette))
	for i := range free {
		free[i] = i
	}
	for _, l := range lines {
		encoding, _, _ := strings.Cut(l.Name, ",")
		own := slices.Index(encodings, encoding)
		if at := slices.Index(free, own); at >= 0 {
			places[l.Name], free = own, slices.Delete(free, at, at+1)
		}
	}
	if len(places) > 0 {
		slices.Reverse(free)
	}
	for _, l := range lines {
		if _, has := places[l.Name]; !has {
			place := len(places)
			if len(free) > 0 {
				place, free = free[0], free[1:]
			}
			places[l.Name] = place
		}
	}
	return places
}

// write writes plots of one size in rows, their axes aligned, as a PNG. The last row may be shorter.
func write(w io.Writer, size vg.Point, plots [][]*plot.Plot) error {
	rows, cols := len(plots), len(plots[0])
	plots[rows-1] = append(plots[rows-1], make([]*plot.Plot, cols-len(plots[rows-1]))...)
	canvas := vgimg.NewWith(vgimg.UseWH(size.X*vg.Length(cols), size.Y*vg.Length(rows)), vgimg.UseDPI(dotsPerInch))
	c := draw.New(canvas)
	tiles := draw.Tiles{Rows: rows, Cols: cols, PadX: vg.Points(18), PadY: vg.Points(12),
		PadTop: vg.Points(8), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(12)}
	for _, p := range slices.Concat(plots...) {
		if p != nil {
			widen(&p.X)
			widen(&p.Y)
		}
	}
	for row, areas := range plot.Align(plots, tiles, c) {
		for col, p := range plots[row] {
			if p != nil {
				drawBeside(p, areas[col])
			}
		}
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	return nil
}

// widen extends an axis whose values differ by no more than rounding.
func widen(a *plot.Axis) {
	if size := max(math.Abs(a.Min), math.Abs(a.Max)); a.Max-a.Min < 1e-6*size {
		a.Min, a.Max = a.Min-size/2, a.Max+size/2
	}
}

// drawBeside draws a plot with its legend to its right, where no line crosses it; a legend that is too high is smaller.
func drawBeside(p *plot.Plot, c draw.Canvas) {
	legend := p.Legend
	p.Legend = plot.NewLegend() // p would draw it over the lines
	title := p.Title.TextStyle.Height(p.Title.Text)
	if part := (c.Size().Y - title) / legend.Rectangle(c).Size().Y; part < 1 {
		legend.TextStyle.Font.Size, legend.Padding = part*legend.TextStyle.Font.Size, part*legend.Padding
	}
	width := legend.Rectangle(c).Size().X
	p.Draw(draw.Crop(c, 0, -width, 0, 0))
	legend.Draw(draw.Crop(c, c.Size().X-width, 0, 0, -title))
}

// empty returns a plot without lines, in the common style.
func empty(title, xLabel, yLabel string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, xLabel, yLabel
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{whole: true}, ticks{}
	p.Legend.Top, p.Legend.Left, p.Legend.ThumbnailWidth = true, true, vg.Points(14)
	p.Legend.XOffs, p.Legend.Padding = vg.Points(6), vg.Points(2)
	sans(p)
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	grid.Horizontal.Color = color.Gray{Y: 0xe0}
	p.Add(grid)
	return p
}

// sans sets all text of a plot in the embedded sans-serif font: figures are the same on all machines.
func sans(p *plot.Plot) {
	for _, style := range []*draw.TextStyle{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Size = vg.Points(12)
	p.Legend.TextStyle.Font.Size = vg.Points(9)
}

// mostLabels is the largest number of labels along an axis of a plot.
const mostLabels = 6

// ticks are labels at multiples of 1, 2 or 5 times a power of ten, and minor ticks between them. Gonum's own labels
// start anywhere, as in 0.4, 1.6, 2.8.
type ticks struct{ whole bool } // whole: only whole numbers

// Ticks implements plot.Ticker.
func (t ticks) Ticks(low, high float64) (all []plot.Tick) {
	if span := high - low; !(span > 1e-12*max(math.Abs(low), math.Abs(high))) || math.IsInf(span, 1) {
		return nil // values that float64 cannot divide, or NaN
	}
	decade := int(math.Floor(math.Log10((high - low) / mostLabels)))
	if t.whole {
		decade = max(decade, 0)
	}
	const rounding = 1e-9
	step, leading := math.Pow10(decade), 1
	for math.Floor(high/step+rounding)-math.Ceil(low/step-rounding) >= mostLabels {
		switch leading {
		case 1:
			step, leading = 2*step, 2
		case 2:
			step, leading = 2.5*step, 5
		default:
			step, leading, decade = 2*step, 1, decade+1
		}
	}
	parts := map[int]int{1: 5, 2: 4, 5: 5}[leading]
	if t.whole && decade == 0 {
		parts = leading
	}
	minor := step / float64(parts)
	for k := math.Ceil(low/minor - rounding); k <= high/minor+rounding; k++ {
		tick := plot.Tick{Value: min(max(k*minor, low), high)}
		if math.Mod(k, float64(parts)) == 0 {
			tick.Label = strconv.FormatFloat(math.Round(k/float64(parts))*step+0, 'f', max(0, -decade), 64) // -0 + 0 is 0
		}
		all = append(all, tick)
	}
	return all
}

// labelled are labels at sorted values, except for a value too near to the label before it.
func labelled(values []int) (at plot.ConstantTicks) {
	for _, v := range values {
		if n := len(at); n == 0 || 12*(v-int(at[n-1].Value)) >= values[len(values)-1]-values[0] {
			at = append(at, plot.Tick{Value: float64(v), Label: strconv.Itoa(v)})
		}
	}
	return at
}

// Plot is a plot of lines. Lines of one name share a colour and an entry of the legend; an encoding has its own colour.
// A colour comes again, in dots, after all others. Single points are dots.
type Plot struct {
	Title, X, Y string // X and Y are labels of the axes
	Lines       []Line
	Dashed      string // entry of the legend for dashed lines; "" for none
	NoLegend    bool
	Labels      []int // sorted values with labels on the X axis; nil for round ones
}

// Line is a line of a Plot. Values that are not finite leave a gap.
type Line struct {
	Name      string
	X, Y      []float64
	Low, High []float64 // of a band around it; nil for none
	Dashed    bool
}

// Draw writes one large plot as a PNG.
func (of Plot) Draw(w io.Writer) error { return Plots(w, Large, [][]Plot{{of}}) }

// Plots writes plots of one size in rows, their axes aligned, as a PNG. The last row may be shorter.
func Plots(w io.Writer, size vg.Point, plots [][]Plot) error {
	drawn := make([][]*plot.Plot, len(plots))
	for i, row := range plots {
		for _, p := range row {
			drawn[i] = append(drawn[i], p.plot())
		}
	}
	return write(w, size, drawn)
}

const longestLabel = 36 // letters

func (of Plot) plot() *plot.Plot {
	p := empty(of.Title, of.X, of.Y)
	addLines(p, of.Lines)
	if of.Dashed != "" {
		p.Legend.Add(of.Dashed, &plotter.Line{LineStyle: dashed})
	}
	if of.NoLegend {
		p.Legend = plot.NewLegend()
	}
	if of.Labels != nil {
		p.X.Tick.Marker = labelled(of.Labels)
	}
	return p
}

func addLines(p *plot.Plot, lines []Line) {
	styles, places := map[string]draw.LineStyle{}, colours(lines)
	for _, l := range lines { // bands first: they do not tint lines
		style, named := styles[l.Name]
		if !named {
			place := places[l.Name]
			style = draw.LineStyle{Color: palette[place%len(palette)], Width: vg.Points(1.8)}
			if place >= len(palette) {
				style.Dashes = []vg.Length{vg.Points(2), vg.Points(2)}
			}
			styles[l.Name] = style
			label := l.Name
			if letters := []rune(label); len(letters) > longestLabel { // the end may tell it from others
				label = string(letters[:longestLabel/2]) + "…" + string(letters[len(letters)-longestLabel/2+1:])
			}
			p.Legend.Add(label, &plotter.Line{LineStyle: style})
		}
		for _, band := range l.bands() {
			clr := style.Color.(color.NRGBA)
			clr.A = 0x24
			p.Add(&plotter.Polygon{XYs: []plotter.XYs{band}, Color: clr})
		}
	}
	for _, l := range lines {
		style := styles[l.Name]
		if l.Dashed {
			style.Width, style.Dashes = dashed.Width, dashed.Dashes
		}
		for _, r := range runs(len(l.X), func(i int) bool { return finite(l.Y[i]) }) {
			var part plotter.XYs
			for i := r[0]; i < r[1]; i++ {
				part = append(part, plotter.XY{X: l.X[i], Y: l.Y[i]})
			}
			if labelWhole(p, part); len(part) > 1 {
				p.Add(&plotter.Line{XYs: part, LineStyle: style})
				continue
			}
			p.Add(&plotter.Scatter{XYs: part, GlyphStyle: draw.GlyphStyle{
				Color: style.Color, Radius: 1.5 * style.Width, Shape: draw.CircleGlyph{}}})
		}
	}
}

// dashed is the style of dashed lines, without their colour.
var dashed = draw.LineStyle{Color: color.Black, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}

// bands are the outlines of the band around a line, one for each part without gaps.
func (l Line) bands() (outlines []plotter.XYs) {
	for _, r := range runs(len(l.High), func(i int) bool { return finite(l.Low[i]) && finite(l.High[i]) }) {
		var outline plotter.XYs
		for i := r[0]; i < r[1]; i++ {
			outline = append(outline, plotter.XY{X: l.X[i], Y: l.High[i]})
		}
		for i := r[1] - 1; i >= r[0]; i-- {
			outline = append(outline, plotter.XY{X: l.X[i], Y: l.Low[i]})
		}
		outlines = append(outlines, outline)
	}
	return outlines
}

// runs are the ranges from, to of the numbers below n without one that is not known.
func runs(n int, known func(i int) bool) (all [][2]int) {
	for i := range n {
		switch last := len(all) - 1; {
		case !known(i):
		case last >= 0 && all[last][1] == i:
			all[last][1]++
		default:
			all = append(all, [2]int{i, i + 1})
		}
	}
	return all
}

// labelWhole leaves the labels of the X axis whole numbers if the X of all points are.
func labelWhole(p *plot.Plot, points plotter.XYs) {
	if slices.ContainsFunc(points, func(at plotter.XY) bool { return at.X != math.Trunc(at.X) }) {
		p.X.Tick.Marker = ticks{}
	}
}

func finite(v float64) bool { return v-v == 0 }

// Dots draws a line of dots for each name as a PNG, the first at the top, with a bar at their mean.
func Dots(w io.Writer, title, xLabel string, lines []string, values [][]float64) error {
	p := empty(title, xLabel, "")
	var labels plot.ConstantTicks
	widest := vg.Length(0)
	p.Y.Min, p.Y.Max = -0.5, float64(len(lines))-0.5
	for i, value := range values {
		y := float64(len(lines) - 1 - i)
		labels, widest = append(labels, plot.Tick{Value: y, Label: lines[i]}), max(widest, p.Y.Tick.Label.Width(lines[i]))
		dots := &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: palette[0], Radius: vg.Points(2.5),
			Shape: draw.CircleGlyph{}}}
		for _, v := range value {
			dots.XYs = append(dots.XYs, plotter.XY{X: v, Y: y})
		}
		mean := stat.Mean(value, nil)
		p.Add(dots, &plotter.Line{LineStyle: draw.LineStyle{Color: palette[1], Width: vg.Points(2)},
			XYs: plotter.XYs{{X: mean, Y: y - 0.35}, {X: mean, Y: y + 0.35}}})
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{}, labels
	return write(w, vg.Point{X: 4*vg.Inch + widest, Y: vg.Inch + vg.Length(len(lines))*vg.Points(18)},
		[][]*plot.Plot{{p}})
}

// Cloud is a scatter plot, coloured by a value: from blue at the minimum to red at the maximum.
type Cloud struct {
	Title, Across, Down string // Across and Down are labels of the axes
	X, Y                []float64
	Value               []float64 // nil for one colour
}

// Clouds draws clouds side by side as a PNG.
func Clouds(w io.Writer, clouds []Cloud) error {
	plots := make([]*plot.Plot, len(clouds))
	for i, c := range clouds {
		var values []float64 // of the dots
		dots := &plotter.Scatter{}
		low, high := math.Inf(1), math.Inf(-1)
		for k, x := range c.X {
			if !finite(x) || !finite(c.Y[k]) {
				continue
			}
			dots.XYs = append(dots.XYs, plotter.XY{X: x, Y: c.Y[k]})
			if c.Value == nil {
				continue
			}
			if values = append(values, c.Value[k]); finite(c.Value[k]) {
				low, high = min(low, c.Value[k]), max(high, c.Value[k])
			}
		}
		colors := moreland.SmoothBlueRed()
		colors.SetMin(low)
		colors.SetMax(max(high, low+1e-9))
		dots.GlyphStyleFunc = func(k int) draw.GlyphStyle {
			style := draw.GlyphStyle{Color: palette[0], Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
			if c.Value != nil {
				var err error
				if style.Color, err = colors.At(values[k]); err != nil {
					style.Color = notFinite
				}
			}
			return style
		}
		plots[i] = empty(c.Title, c.Across, c.Down)
		labelWhole(plots[i], dots.XYs)
		plots[i].Add(dots)
	}
	return write(w, vg.Point{X: 3.2 * vg.Inch, Y: 3 * vg.Inch}, [][]*plot.Plot{plots})
}
