// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/wepe-go/wepe/internal/figure"
)

// Size of one of several panels.
const panelWidth, panelHeight = 4 * vg.Inch, 2.7 * vg.Inch

// Curves draws the loss and the top-1 accuracy of runs over their steps, as a PNG: one colour per encoding, each seed a
// thin line, their mean a thick one with its last value in the legend, the training loss dashed. Test rows are drawn
// only if there are no validation rows.
//
// Steps that a resumed run evaluated twice count once, with the later row.
func Curves(w io.Writer, title string, evals []Eval) error {
	if title != "" {
		title += ":\n" // beside its legend a plot is narrow
	}
	plots, err := lossAndAccuracy(title, evals)
	if err != nil {
		return err
	}
	return figure.Write(w, figure.Width, figure.Height, [][]*plot.Plot{plots})
}

func lossAndAccuracy(title string, evals []Eval) ([]*plot.Plot, error) {
	split := drawnSplit(evals)
	curves := collect(evals, split)
	if len(curves) == 0 {
		return nil, fmt.Errorf("report: no rows of split %q or %q to draw", Validation, Test)
	}
	losses := figure.New(title+split+" loss (training dashed)", "step", "loss (nats per image)")
	accuracy := figure.New(title+split+" accuracy", "step", "top-1 accuracy (%)")
	for i, c := range curves {
		drawSeries(losses, c, i, "%.3f", loss)
		drawSeries(accuracy, c, i, "%.1f", topOne)
		clr := figure.Palette[i%len(figure.Palette)]
		clr.A = 0xb0
		dashed := draw.LineStyle{Color: clr, Width: vg.Points(1.2), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}
		figure.AddLine(losses, points(c.seeds, trainLoss), dashed)
		if len(points(c.seeds, loss)) == 0 {
			losses.Legend.Add(c.name, &plotter.Line{LineStyle: dashed})
		}
	}
	return []*plot.Plot{losses, accuracy}, nil
}

// TrainingFigures draws the rows of one run over its steps, each quantity in a figure of its own that a narrow screen
// can show: loss, accuracy or, of a detector, the average precision of boxes and masks, and the learned scalars.
func TrainingFigures(evals []Eval) (figures []Figure, err error) {
	if len(evals) == 0 {
		return nil, nil
	}
	var plots []*plot.Plot
	if slices.ContainsFunc(evals, func(e Eval) bool { return e.Boxes != nil }) {
		plots = precision(evals)
	} else if plots, err = lossAndAccuracy("", evals); err != nil {
		return nil, err
	}
	curves := collect(evals, drawnSplit(evals))
	for _, name := range scalarNames(curves) {
		plots = append(plots, scalarPlot(curves, name))
	}
	for _, p := range plots {
		f, err := NewFigure(p.Title.Text, "", func(w io.Writer) error {
			return figure.Write(w, panelWidth, panelHeight, [][]*plot.Plot{{p}})
		})
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

func topOne(e Eval) float64    { return 100 * measured(e, e.Top1) }
func loss(e Eval) float64      { return measured(e, e.Loss) }
func trainLoss(e Eval) float64 { return float64(e.TrainLoss) }

// measured is NaN, which is not drawn, for the evaluations of a training without a validation split.
func measured(e Eval, number Number) float64 {
	if e.Images == 0 {
		return math.NaN()
	}
	return float64(number)
}

// Sizes draws the test accuracy of the same weights over the side of the images, for those rows whose images are
// square, as a PNG.
func Sizes(w io.Writer, rows []Result) error {
	evals, sides := bySide(rows)
	p := figure.New("test accuracy of the same weights at other sizes", "side of the images (pixels)",
		"top-1 accuracy (%)")
	for i, c := range collect(evals, Test) {
		drawSeries(p, c, i, "%.1f", topOne)
	}
	figure.LabelX(p, sides)
	return figure.Write(w, figure.Width/2, figure.Height, [][]*plot.Plot{{p}})
}

// bySide returns the test results at square sizes as evaluations at the step of the side, and the sides.
func bySide(rows []Result) (evals []Eval, sides []int) {
	for _, r := range rows {
		var height, width int
		if _, err := fmt.Sscanf(r.ImageSize, "%dx%d", &height, &width); err == nil && height == width {
			r.Recipe = strings.TrimSuffix(r.Recipe, " at "+r.ImageSize)
			evals = append(evals, Eval{Job: r.Job, Step: height, Split: Test, Metrics: r.Test})
			sides = append(sides, height)
		}
	}
	slices.Sort(sides)
	return evals, sides
}

// precision plots the training loss of detectors and the average precision of boxes and masks on the validation split.
func precision(evals []Eval) []*plot.Plot {
	loss := figure.New("training loss", "step", "loss")
	precision := figure.New("average precision on the validation split", "step", "AP (%)")
	percent := func(numbers map[string]Number) float64 {
		ap, known := numbers["AP"]
		if !known || ap < 0 { // COCO's -1: no objects
			return math.NaN() // a gap in the line
		}
		return 100 * float64(ap)
	}
	for i, c := range collect(evals, Validation) {
		boxes, masks := c, c
		boxes.name, masks.name = c.name+", boxes", c.name+", masks"
		drawSeries(loss, c, 2*i, "%.3f", trainLoss)
		drawSeries(precision, boxes, 2*i, "%.1f", func(e Eval) float64 { return percent(e.Boxes) })
		drawSeries(precision, masks, 2*i+1, "%.1f", func(e Eval) float64 { return percent(e.Masks) })
	}
	return []*plot.Plot{loss, precision}
}

// symbols are the known scalars of the encodings (the Scalars methods of package wepe) in the order of their panels,
// with their symbols.
var symbols = []struct{ name, symbol string }{
	{"lambda", "gate λ"}, {"omega3", "ω3′"}, {"omega3_re", "Re ω3"}, {"alpha_scale", "α_scale"}, {"beta_pos", "β_pos"},
	{"beta", "β"}, {"gamma", "γ"}, {"strength", "strength σ"}, {"scale", "scale s"},
}

// Scalars draws the learned scalars of the encodings over the steps, as a PNG: one panel per scalar that changes in
// some run, or of all if none changes, with colours, seeds and means as in Curves.
func Scalars(w io.Writer, evals []Eval) error {
	curves := collect(evals, drawnSplit(evals))
	names := scalarNames(curves)
	if len(names) == 0 {
		return errors.New("report: no rows with scalars to draw")
	}
	cols := min(3, len(names))
	if len(names) == 4 {
		cols = 2
	}
	var plots [][]*plot.Plot
	for row := range slices.Chunk(names, cols) {
		panels := make([]*plot.Plot, cols)
		for i, name := range row {
			panels[i] = scalarPlot(curves, name)
		}
		plots = append(plots, panels)
	}
	return figure.Write(w, vg.Length(cols)*panelWidth, vg.Length(len(plots))*panelHeight, plots)
}

// scalarNames lists the scalars that Scalars draws: the known ones first, then others by name.
func scalarNames(curves []curve) (names []string) {
	present, moved := map[string]bool{}, map[string]bool{}
	for _, c := range curves {
		for _, seed := range c.seeds {
			for _, e := range seed {
				for name, value := range e.Scalars {
					present[name] = true
					first, ok := seed[0].Scalars[name]
					if !ok || math.Abs(float64(value-first)) > 1e-6*math.Abs(float64(first)) {
						moved[name] = true
					}
				}
			}
		}
	}
	if len(moved) > 0 {
		present = moved
	}
	for _, s := range symbols {
		if present[s.name] {
			names = append(names, s.name)
			delete(present, s.name)
		}
	}
	return append(names, slices.Sorted(maps.Keys(present))...)
}

func scalarPlot(curves []curve, name string) *plot.Plot {
	title := name
	for _, s := range symbols {
		if s.name == name {
			title = s.symbol
		}
	}
	p := figure.New(title, "step", "")
	for i, c := range curves {
		drawSeries(p, c, i, "%.3g", func(e Eval) float64 {
			if v, ok := e.Scalars[name]; ok {
				return float64(v)
			}
			return math.NaN()
		})
	}
	return p
}

// drawnSplit returns the split that is drawn: validation if there is any.
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
func collect(evals []Eval, split string) (curves []curve) {
	var order []Job
	steps := map[Job]map[int]Eval{}
	for _, e := range evals {
		if e.Split != split {
			continue
		}
		if steps[e.Job] == nil {
			order = append(order, e.Job)
			steps[e.Job] = map[int]Eval{}
		}
		steps[e.Job][e.Step] = e
	}
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

// curveName returns the encoding, with the columns in which the jobs of a figure differ.
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

// drawSeries draws the seeds of the i-th curve and their mean, whose last value is in the legend.
func drawSeries(p *plot.Plot, c curve, i int, verb string, value func(Eval) float64) {
	pale := figure.Palette[i%len(figure.Palette)]
	pale.A = 0x70
	for _, seed := range c.seeds {
		if len(c.seeds) > 1 {
			figure.AddLine(p, points([][]Eval{seed}, value), draw.LineStyle{Color: pale, Width: vg.Points(0.7)})
		}
	}
	mean := points(c.seeds, value)
	if len(mean) == 0 {
		return
	}
	style := figure.LineStyle(i, vg.Points(2.2))
	figure.AddLine(p, mean, style)
	p.Legend.Add(c.name+" "+fmt.Sprintf(verb, mean[len(mean)-1].Y), &plotter.Line{LineStyle: style})
}

// points returns the mean over seeds at every step that all seeds have, without those that are not finite.
func points(seeds [][]Eval, value func(Eval) float64) (out plotter.XYs) {
	sum, count := map[int]float64{}, map[int]int{}
	for _, seed := range seeds {
		for _, e := range seed {
			sum[e.Step] += value(e)
			count[e.Step]++
		}
	}
	for _, step := range slices.Sorted(maps.Keys(sum)) {
		if mean := sum[step] / float64(count[step]); count[step] == len(seeds) && finite(mean) {
			out = append(out, plotter.XY{X: float64(step), Y: mean})
		}
	}
	return out
}

func finite(v float64) bool { return v-v == 0 }
