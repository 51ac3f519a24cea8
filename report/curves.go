// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"image/color"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Size of the picture of Curves.
const curvesWidth, curvesHeight = 11 * vg.Inch, 4.5 * vg.Inch

// palette are the colours of Okabe and Ito (2008), chosen to stay apart for colour-blind readers, without the yellow
// that is too light for a line on white.
var palette = []color.NRGBA{
	{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, // blue
	{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}, // vermillion
	{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, // bluish green
	{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, // reddish purple
	{R: 0x40, G: 0x40, B: 0x40, A: 0xff}, // dark grey
	{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, // orange
	{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, // sky blue
}

// Curves draws the loss and the top-1 accuracy of runs over their steps, as a PNG: one colour per encoding, each seed
// a thin line, their mean a thick one with its last value in the legend, the training loss dashed. Where validation
// rows exist test rows are not drawn, because the test split is not looked at while training.
//
// Steps that a resumed run evaluated twice count once, as the later row has them.
func Curves(w io.Writer, title string, evals []Eval) error {
	split := drawnSplit(evals)
	curves := collect(evals, split)
	if len(curves) == 0 {
		return fmt.Errorf("report: no rows of split %q or %q to draw", Validation, Test)
	}
	if title != "" {
		title += ": "
	}
	loss := newPlot(title+split+" loss (training dashed)", "loss (nats per image)")
	accuracy := newPlot(title+split+" accuracy", "top-1 accuracy (%)")
	accuracy.Legend.Top = false // curves rise
	for i, c := range curves {
		clr := palette[i%len(palette)]
		drawSeries(loss, c, clr, "%.3f", func(e Eval) float64 { return float64(e.Loss) })
		drawTrainLoss(loss, c, clr)
		drawSeries(accuracy, c, clr, "%.1f", func(e Eval) float64 { return 100 * float64(e.Top1) })
	}
	return drawPlots(w, curvesWidth, curvesHeight, [][]*plot.Plot{{loss, accuracy}})
}

// Accuracy draws the top-1 accuracy on the test images over what the rows have in Step, as a PNG: one colour per
// encoding, as Curves. The label says what Step is, "side of the pictures (pixels)" for one.
func Accuracy(w io.Writer, title, label string, evals []Eval) error {
	p := newPlot(title, "top-1 accuracy (%)")
	p.X.Label.Text, p.Legend.Top = label, false
	for i, c := range collect(evals, Test) {
		drawSeries(p, c, palette[i%len(palette)], "%.1f", func(e Eval) float64 { return 100 * float64(e.Top1) })
	}
	return drawPlots(w, curvesWidth/2, curvesHeight, [][]*plot.Plot{{p}})
}

// Precision draws the training loss of detectors over their steps, and beside it the average precision of boxes and of
// masks on the validation rows, as a PNG.
func Precision(w io.Writer, evals []Eval) error {
	loss, precision := newPlot("training loss", "loss"), newPlot("average precision on held-out pictures", "AP (%)")
	precision.Legend.Top = false // curves rise
	percent := func(numbers map[string]Number) float64 {
		ap, known := numbers["AP"]
		if !known || ap < 0 { // COCO's -1: nothing counted
			return math.NaN() // is not drawn
		}
		return 100 * float64(ap)
	}
	for i, c := range collect(evals, Validation) {
		boxes, masks := c, c
		boxes.name, masks.name = c.name+", boxes", c.name+", masks"
		first, second := palette[2*i%len(palette)], palette[(2*i+1)%len(palette)]
		drawSeries(loss, c, first, "%.3f", func(e Eval) float64 { return float64(e.TrainLoss) })
		drawSeries(precision, boxes, first, "%.1f", func(e Eval) float64 { return percent(e.Boxes) })
		drawSeries(precision, masks, second, "%.1f", func(e Eval) float64 { return percent(e.Masks) })
	}
	return drawPlots(w, curvesWidth, curvesHeight, [][]*plot.Plot{{loss, precision}})
}

// drawnSplit is the split whose rows are drawn: validation if there is any.
func drawnSplit(evals []Eval) string {
	if slices.ContainsFunc(evals, func(e Eval) bool { return e.Split == Validation }) {
		return Validation
	}
	return Test
}

// curve is the history of one encoding: the evaluations of each seed, by step.
type curve struct {
	name  string
	seeds [][]Eval
}

// collect sorts the rows of one split into curves, in the order in which the encodings first appear.
func collect(evals []Eval, split string) []curve {
	evals = slices.DeleteFunc(slices.Clone(evals), func(e Eval) bool { return e.Split != split })
	var order []Job
	steps := make(map[Job]map[int]Eval)
	for _, e := range evals {
		if steps[e.Job] == nil {
			order = append(order, e.Job)
			steps[e.Job] = make(map[int]Eval)
		}
		steps[e.Job][e.Step] = e
	}
	var curves []curve
	for _, job := range order {
		name := curveName(job, order)
		at := slices.IndexFunc(curves, func(c curve) bool { return c.name == name })
		if at < 0 {
			at = len(curves)
			curves = append(curves, curve{name: name})
		}
		var seed []Eval
		for _, step := range slices.Sorted(maps.Keys(steps[job])) {
			seed = append(seed, steps[job][step])
		}
		curves[at].seeds = append(curves[at].seeds, seed)
	}
	return curves
}

// curveName is the encoding, followed by what else differs between the jobs of a picture.
func curveName(job Job, all []Job) string {
	name := job.Encoding
	for _, field := range []func(Job) string{
		func(j Job) string { return j.Recipe },
		func(j Job) string { return j.Dataset },
		func(j Job) string { return strconv.FormatFloat(100*j.Fraction, 'g', 3, 64) + "%" },
	} {
		if slices.ContainsFunc(all, func(other Job) bool { return field(other) != field(job) }) {
			name += ", " + field(job)
		}
	}
	return name
}

// drawSeries draws the seeds of a curve and their mean, whose last value the legend tells.
func drawSeries(p *plot.Plot, c curve, clr color.NRGBA, verb string, value func(Eval) float64) {
	pale := clr
	pale.A = 0x70
	for _, seed := range c.seeds {
		if len(c.seeds) > 1 {
			addLine(p, points([][]Eval{seed}, value), draw.LineStyle{Color: pale, Width: vg.Points(0.7)})
		}
	}
	mean := points(c.seeds, value)
	if len(mean) == 0 {
		return
	}
	style := draw.LineStyle{Color: clr, Width: vg.Points(2.2)}
	addLine(p, mean, style)
	p.Legend.Add(c.name+" "+fmt.Sprintf(verb, mean[len(mean)-1].Y), &plotter.Line{LineStyle: style})
}

func drawTrainLoss(p *plot.Plot, c curve, clr color.NRGBA) {
	clr.A = 0xb0
	addLine(p, points(c.seeds, func(e Eval) float64 { return float64(e.TrainLoss) }),
		draw.LineStyle{Color: clr, Width: vg.Points(1.2), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}})
}

// points returns the mean over seeds at every step that all seeds have, without those that are not finite.
func points(seeds [][]Eval, value func(Eval) float64) plotter.XYs {
	sum, count := make(map[int]float64), make(map[int]int)
	for _, seed := range seeds {
		for _, e := range seed {
			sum[e.Step] += value(e)
			count[e.Step]++
		}
	}
	var out plotter.XYs
	for _, step := range slices.Sorted(maps.Keys(sum)) {
		mean := sum[step] / float64(count[step])
		if count[step] == len(seeds) && !math.IsNaN(mean) && !math.IsInf(mean, 0) {
			out = append(out, plotter.XY{X: float64(step), Y: mean})
		}
	}
	return out
}

// addLine adds a line to a plot, as a dot where there is a single point.
func addLine(p *plot.Plot, xys plotter.XYs, style draw.LineStyle) {
	switch len(xys) {
	case 0:
	case 1:
		p.Add(&plotter.Scatter{XYs: xys, GlyphStyle: draw.GlyphStyle{
			Color: style.Color, Radius: 1.5 * style.Width, Shape: draw.CircleGlyph{}}})
	default:
		p.Add(&plotter.Line{XYs: xys, LineStyle: style})
	}
}
