// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package figure

import (
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// HeatMap is a matrix in colours, row 0 at the top. Values that are not finite are grey; values beyond the limit are
// clipped.
type HeatMap struct {
	Title      string
	Values     [][]float64 // [rows][columns]
	Rows, Cols []string    // names; nil numbers the cells

	Down, Across string // labels of the axes

	// Limit is the end of the colour scale: blue at -Limit over light grey at 0 to red at Limit or, if all values are
	// nonnegative, white at 0 to dark red at Limit. One that is not finite, or not above 0, is 1.
	Limit    float64
	Positive bool
	Root     bool // of nonnegative values the colours are of the square roots, which shows small ones beside Limit

	Outlined *[2]int // row and column of a cell with a frame
	Numbers  bool    // whether cells contain their values, in percent
}

// Sizes of a heat map, in points: of its cells, and of the names and titles around them.
const (
	heatSide     = vg.Length(190) // of the longer side, while its cells are between the next two sizes
	thinSide     = vg.Length(60)  // of the shorter side, while the longer is at most the next
	thinLength   = vg.Length(480)
	largestCell  = vg.Length(48)
	smallestCell = vg.Length(7)
	heatMargin   = vg.Length(70)
	barWidth     = vg.Length(44) // of the colour bar with its labels
	barColours   = 9
	barHeight    = vg.Length(150) // at least, of a map with a colour bar and a title
	longestName  = 22             // letters
)

var notFinite = color.Gray{Y: 0x80}

// HeatMaps writes heat maps in rows as a PNG, all as large as the largest needs. The last row may be shorter.
func HeatMaps(w io.Writer, maps [][]HeatMap) error {
	var size vg.Point
	plots := make([][]*plot.Plot, len(maps))
	for i, row := range maps {
		for _, h := range row {
			p, needed := h.plot()
			plots[i] = append(plots[i], p)
			size = vg.Point{X: max(size.X, needed.X), Y: max(size.Y, needed.Y)}
		}
	}
	return write(w, size, plots)
}

// plot draws the cells, with gonum's row 0 at the bottom turned to the top.
func (h HeatMap) plot() (*plot.Plot, vg.Point) {
	rows, cols := len(h.Values), len(h.Values[0])
	if !finite(h.Limit) || h.Limit <= 0 {
		h.Limit = 1
	}
	colors, low := moreland.SmoothBlueRed().Palette(255), -h.Limit
	bar := moreland.SmoothBlueRed().Palette(barColours)
	if h.Positive {
		colors, bar, low = reds{}, reds{}, 0
	}
	cells := plotter.NewHeatMap(matrix{h, low}, colors)
	cells.Min, cells.Max, cells.NaN = low, h.Limit, notFinite

	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = h.Title, h.Across, h.Down
	p.Add(cells, cells, cells) // again over the seams of antialiased cells
	long, short := vg.Length(max(rows, cols)), vg.Length(min(rows, cols))
	cell := min(largestCell, max(heatSide/long, min(thinSide/short, thinLength/long)))
	if h.Rows != nil {
		cell = max(cell, smallestCell)
	}
	p.X.Tick.Marker = names(h.Cols, cols, false)
	p.Y.Tick.Marker = names(h.Rows, rows, true)
	p.X.Padding, p.Y.Padding = 0, 0
	sans(p)
	p.X.Tick.Label.Font.Size = max(5, min(9, 0.85*cell))
	p.Y.Tick.Label.Font.Size = p.X.Tick.Label.Font.Size
	margin := vg.Point{X: heatMargin, Y: heatMargin}
	if h.Cols != nil {
		p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/2, text.XRight, text.YCenter
		margin = margin.Add(vg.Point{X: 60, Y: 60})
	}
	if h.Numbers {
		p.Add(h.numbers())
	} else {
		margin.X += barWidth
		p.Legend.Top, p.Legend.Left, p.Legend.ThumbnailWidth, p.Legend.XOffs = true, true, 10, 4
		for i, colour := range slices.Backward(plotter.PaletteThumbnailers(bar)) {
			label := ""
			if i%(barColours/2) == 0 {
				part := float64(i) / (barColours - 1)
				if h.Root {
					part *= part
				}
				label = strconv.FormatFloat(low+(h.Limit-low)*part, 'g', 2, 64)
			}
			p.Legend.Add(label, colour)
		}
	}
	if h.Outlined != nil {
		y, x := float64(rows-1-h.Outlined[0]), float64(h.Outlined[1])
		p.Add(&plotter.Line{LineStyle: draw.LineStyle{Color: color.Black, Width: vg.Points(1.5)}, XYs: plotter.XYs{
			{X: x - .5, Y: y - .5}, {X: x + .5, Y: y - .5}, {X: x + .5, Y: y + .5}, {X: x - .5, Y: y + .5},
			{X: x - .5, Y: y - .5}}})
	}
	needed := margin.Add(vg.Point{X: cell * vg.Length(cols), Y: cell * vg.Length(rows)})
	if needed.X = max(needed.X, p.Title.TextStyle.Width(h.Title)+barWidth); !h.Numbers {
		needed.Y = max(needed.Y, barHeight)
	}
	return p, needed
}

// reds is the sequential palette Reds of nine classes of ColorBrewer (Harrower and Brewer, 2003); gonum's package with
// all palettes adds 0.4 MB to every program.
type reds struct{}

// Colors implements palette.Palette.
func (reds) Colors() (colors []color.Color) {
	for _, rgb := range []uint32{0xfff5f0, 0xfee0d2, 0xfcbba1, 0xfc9272, 0xfb6a4a, 0xef3b2c, 0xcb181d, 0xa50f15,
		0x67000d} {
		colors = append(colors, color.RGBA{R: uint8(rgb >> 16), G: uint8(rgb >> 8), B: uint8(rgb), A: 0xff})
	}
	return colors
}

// numbers returns the values in their cells, white on dark ones.
func (h HeatMap) numbers() *plotter.Labels {
	l := &plotter.Labels{}
	for row, values := range h.Values {
		for col, v := range values {
			if math.IsNaN(v) || v == 0 {
				continue
			}
			style := plot.New().X.Tick.Label
			style.XAlign, style.YAlign, style.Font.Variant, style.Font.Size = text.XCenter, text.YCenter, "Sans", 8
			if h.height(v) > 0.6*h.Limit {
				style.Color = color.White
			}
			l.XYs = append(l.XYs, plotter.XY{X: float64(col), Y: float64(len(h.Values) - 1 - row)})
			l.Labels = append(l.Labels, strconv.FormatFloat(100*v, 'f', 1, 64))
			l.TextStyle = append(l.TextStyle, style)
		}
	}
	return l
}

// height is the place of a value on the colour scale, whose end is Limit.
func (h HeatMap) height(v float64) float64 {
	if h.Root {
		return math.Sqrt(v * h.Limit)
	}
	return v
}

// matrix is a plotter.GridXYZ.
type matrix struct {
	HeatMap
	low float64
}

func (m matrix) Dims() (c, r int) { return len(m.Values[0]), len(m.Values) }
func (m matrix) X(c int) float64  { return float64(c) }
func (m matrix) Y(r int) float64  { return float64(r) }
func (m matrix) Z(c, r int) float64 {
	v := m.height(m.Values[len(m.Values)-1-r][c])
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return max(m.low, min(m.Limit, v)) // NaN stays NaN
}

// mostTicks is the largest number of labels along an axis.
const mostTicks = 8

// names returns the ticks of an axis: all names, or without names every, every second, … number from 0 on.
func names(given []string, n int, downwards bool) plot.ConstantTicks {
	var out plot.ConstantTicks
	step := 1
	if given == nil {
		step = (n + mostTicks - 1) / mostTicks
	}
	for i := 0; i < n; i += step {
		tick := plot.Tick{Value: float64(i), Label: strconv.Itoa(i)}
		if given != nil {
			tick.Label = Short(given[i], "")
		}
		if downwards {
			tick.Value = float64(n - 1 - i)
		}
		out = append(out, tick)
	}
	return out
}

// Short returns a name and an ending; it truncates the name, to leave room for the matrix.
func Short(name, ending string) string {
	letters, room := []rune(name), longestName-utf8.RuneCountInString(ending)
	if len(letters) > room {
		return string(letters[:room-1]) + "…" + ending
	}
	return name + ending
}
