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

	"gonum.org/v1/gonum/stat"

	"github.com/wepe-go/wepe/internal/figure"
)

// PlotCurves draws the loss and the top-1 accuracy of runs over their epochs, as a PNG: the mean over the seeds of each
// encoding, in a band from the lowest to the highest seed, and the training loss dashed. Test rows are drawn only if
// there are no validation rows.
//
// Steps that a resumed run evaluated twice count once, with the later row.
func PlotCurves(w io.Writer, title string, evals []Eval) error {
	if title != "" {
		title += ":\n" // beside its legend a plot is narrow
	}
	plots, err := lossAndAccuracy(title, evals)
	if err != nil {
		return err
	}
	if len(plots) == 2 {
		plots[0].NoLegend, plots[1].Dashed = true, plots[0].Dashed // one for both
	}
	return figure.Plots(w, figure.Large, [][]figure.Plot{plots})
}

func lossAndAccuracy(title string, evals []Eval) ([]figure.Plot, error) {
	split := drawnSplit(evals)
	curves := collect(evals, split)
	if len(curves) == 0 {
		return nil, fmt.Errorf("report: no rows of split %q or %q to draw", Validation, Test)
	}
	several := ""
	if slices.ContainsFunc(curves, func(c curve) bool { return len(c.seeds) > 1 }) {
		several = ", mean and range of seeds"
	}
	losses, training := lines(curves, loss), lines(curves, trainLoss)
	if !slices.ContainsFunc(evals, func(e Eval) bool { return e.Images > 0 }) { // no validation
		return []figure.Plot{{Title: title + "training loss" + several, X: axis(evals), Y: "loss", Lines: training}}, nil
	}
	for i := range training {
		training[i].Dashed, training[i].Low, training[i].High = true, nil, nil
	}
	return []figure.Plot{
		{Title: title + split + " loss" + several, X: axis(evals), Y: "loss (nats per image)",
			Lines: append(losses, training...), Dashed: "training loss"},
		{Title: title + split + " accuracy" + several, X: axis(evals), Y: "top-1 accuracy (%)",
			Lines: lines(curves, topOne)},
	}, nil
}

// TrainingFigures draws the rows of one run over its steps, each quantity in a figure of its own that a narrow screen
// can show: loss, accuracy or, of a detector, the average precision of boxes and masks, and the learned scalars.
func TrainingFigures(evals []Eval) (figures []Figure, err error) {
	if len(evals) == 0 {
		return nil, nil
	}
	var plots []figure.Plot
	if slices.ContainsFunc(evals, func(e Eval) bool { return e.Boxes != nil }) {
		plots = precision(evals)
	} else if plots, err = lossAndAccuracy("", evals); err != nil {
		return nil, err
	}
	for _, p := range append(plots, scalarPlots(evals)...) {
		f, err := NewFigure(p.Title, "", func(w io.Writer) error {
			return figure.Plots(w, figure.Small, [][]figure.Plot{{p}})
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
func measured(e Eval, number JSONFloat) float64 {
	if e.Images == 0 {
		return math.NaN()
	}
	return float64(number)
}

// PlotSizes draws the test accuracy of the same weights over the side of the images, for those rows whose images are
// square, as a PNG.
func PlotSizes(w io.Writer, rows []Result) error {
	evals, sides := bySide(rows)
	return figure.Plot{Title: "test accuracy, mean and range of seeds", X: "side of the images (pixels)",
		Y: "top-1 accuracy (%)", Lines: lines(collect(evals, Test), topOne), Labels: sides}.Draw(w)
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
func precision(evals []Eval) []figure.Plot {
	curves := collect(evals, Validation)
	boxes := lines(curves, func(e Eval) float64 { return 100 * float64(meanOf("AP", e.Boxes)) })
	masks := lines(curves, func(e Eval) float64 { return 100 * float64(meanOf("AP", e.Masks)) })
	for i := range curves {
		boxes[i].Name += ", boxes"
		masks[i].Name += ", masks"
	}
	return []figure.Plot{
		{Title: "training loss", X: axis(evals), Y: "loss", Lines: lines(curves, trainLoss)},
		{Title: "average precision on the validation split", X: axis(evals), Y: "AP (%)", Lines: append(boxes, masks...)},
	}
}

// symbols are the known scalars of the encodings (the Scalars methods of package wepe) in the order of their panels,
// with their symbols.
var symbols = []struct{ name, symbol string }{
	{"lambda", "gate λ"}, {"omega3", "ω3′"}, {"omega3_re", "Re ω3"}, {"alpha_scale", "α_scale"}, {"beta_pos", "β_pos"},
	{"beta", "β"}, {"gamma", "γ"}, {"strength", "strength σ"}, {"scale", "scale s"},
}

// PlotScalars draws the learned scalars of the encodings over the steps, as a PNG: one panel per scalar that changes in
// some run, or of all if none changes, with means and bands as in PlotCurves.
func PlotScalars(w io.Writer, evals []Eval) error {
	plots := scalarPlots(evals)
	if len(plots) == 0 {
		return errors.New("report: no rows with scalars to draw")
	}
	cols := min(3, len(plots))
	if len(plots) == 4 {
		cols = 2
	}
	return figure.Plots(w, figure.Small, slices.Collect(slices.Chunk(plots, cols)))
}

// scalarNames lists the scalars that PlotScalars draws: the known ones first, then others by name.
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

func scalarPlots(evals []Eval) (plots []figure.Plot) {
	curves := collect(evals, drawnSplit(evals))
	for _, name := range scalarNames(curves) {
		title := name
		for _, s := range symbols {
			if s.name == name {
				title = s.symbol
			}
		}
		plots = append(plots, figure.Plot{Title: title, X: axis(evals), Y: name,
			Lines: lines(curves, func(e Eval) float64 {
				if v, ok := e.Scalars[name]; ok {
					return float64(v)
				}
				return math.NaN()
			})})
	}
	return plots
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

// lines returns the mean and the range over the seeds of each curve, at every step that all its seeds have.
func lines(curves []curve, value func(Eval) float64) (drawn []figure.Line) {
	for _, c := range curves {
		l, values, x := figure.Line{Name: c.name}, map[int][]float64{}, map[int]float64{}
		for _, e := range slices.Concat(c.seeds...) {
			values[e.Step] = append(values[e.Step], value(e))
			if x[e.Step] = float64(e.Epoch); e.Epoch == 0 {
				x[e.Step] = float64(e.Step)
			}
		}
		for _, step := range slices.Sorted(maps.Keys(values)) {
			if v := values[step]; len(v) == len(c.seeds) {
				l.X, l.Y = append(l.X, x[step]), append(l.Y, stat.Mean(v, nil))
				l.Low, l.High = append(l.Low, slices.Min(v)), append(l.High, slices.Max(v))
			}
		}
		drawn = append(drawn, l)
	}
	return drawn
}

// axis names what lines draws over: epochs, or steps in rows without epochs.
func axis(evals []Eval) string {
	if slices.ContainsFunc(evals, func(e Eval) bool { return e.Epoch > 0 }) { // a run may have only its step 0
		return "epoch"
	}
	return "step"
}
