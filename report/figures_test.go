// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"image/color"
	"io"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// byHand is a line of a figure that a test draws with gonum alone.
type byHand struct {
	colour  color.NRGBA
	points  plotter.XYs
	width   vg.Length
	entry   string // of the legend; empty for none
	dotted  bool
	dashed  bool // as the training loss is
	circled bool
}

func drawnByHand(title, x, y string, lines ...byHand) *plot.Plot {
	p := figure.New(title, x, y)
	for _, l := range lines {
		style := draw.LineStyle{Color: l.colour, Width: l.width}
		if l.dotted {
			style.Dashes = []vg.Length{2, 2}
		}
		if l.dashed {
			style.Dashes = []vg.Length{4, 3}
		}
		if l.circled {
			p.Add(&plotter.Scatter{XYs: l.points, GlyphStyle: draw.GlyphStyle{Color: l.colour, Radius: 1.5 * l.width,
				Shape: draw.CircleGlyph{}}})
		} else if l.points != nil {
			p.Add(&plotter.Line{XYs: l.points, LineStyle: style})
		}
		if l.entry != "" {
			p.Legend.Add(l.entry, &plotter.Line{LineStyle: style})
		}
	}
	return p
}

// same fails unless a figure equals plots drawn by hand in rows, of a size in inches.
func same(t *testing.T, name string, draw func(io.Writer) error, width, height float64, plots ...[]*plot.Plot) {
	t.Helper()
	want := gomlxtest.Must(NewFigure("", "", func(w io.Writer) error {
		return figure.Write(w, vg.Length(width)*vg.Inch, vg.Length(height)*vg.Inch, plots)
	}))(t)
	if got := gomlxtest.Must(NewFigure("", "", draw))(t); string(got.PNG) != string(want.PNG) {
		t.Errorf("%s is not what is drawn by hand", name)
	}
}

// The colours of Okabe and Ito (2008).
var (
	blue, vermillion       = color.NRGBA{0, 114, 178, 255}, color.NRGBA{213, 94, 0, 255}
	green, purple          = color.NRGBA{0, 158, 115, 255}, color.NRGBA{204, 121, 167, 255}
	paleBlue, paleBlueLoss = color.NRGBA{0, 114, 178, 0x70}, color.NRGBA{0, 114, 178, 0xb0}
)

func TestCurvesHaveSeedsMeansAndTheTrainingLoss(t *testing.T) {
	evals := append(history("wepe", 1, 0.125, 0.5, 0.75), history("wepe", 2, 0.25, 0.25, 0.5)...)
	evals = append(evals, history("none", 1, 0.25, 0.5)...)
	other := history("rope", 1, 0.5)
	other[0].Split = Test // is not drawn beside a validation split
	same(t, "Curves", func(w io.Writer) error { return Curves(w, "shapes", append(evals, other...)) }, 11, 4.5,
		[]*plot.Plot{
			drawnByHand("shapes:\nvalidation loss (training dashed)", "step", "loss (nats per image)",
				byHand{colour: paleBlue, width: 0.7, points: plotter.XYs{{X: 0, Y: 2.875}, {X: 10, Y: 2.5}, {X: 20, Y: 2.25}}},
				byHand{colour: paleBlue, width: 0.7, points: plotter.XYs{{X: 0, Y: 2.75}, {X: 10, Y: 2.75}, {X: 20, Y: 2.5}}},
				byHand{colour: blue, width: 2.2, points: plotter.XYs{{X: 0, Y: 2.8125}, {X: 10, Y: 2.625}, {X: 20, Y: 2.375}},
					entry: "wepe 2.375"},
				byHand{colour: paleBlueLoss, width: 1.2, dashed: true,
					points: plotter.XYs{{X: 0, Y: 1.8125}, {X: 10, Y: 1.625}, {X: 20, Y: 1.375}}},
				byHand{colour: vermillion, width: 2.2, points: plotter.XYs{{X: 0, Y: 2.75}, {X: 10, Y: 2.5}},
					entry: "none 2.500"},
				byHand{colour: color.NRGBA{213, 94, 0, 0xb0}, width: 1.2, dashed: true,
					points: plotter.XYs{{X: 0, Y: 1.75}, {X: 10, Y: 1.5}}}),
			drawnByHand("shapes:\nvalidation accuracy", "step", "top-1 accuracy (%)",
				byHand{colour: paleBlue, width: 0.7, points: plotter.XYs{{X: 0, Y: 12.5}, {X: 10, Y: 50}, {X: 20, Y: 75}}},
				byHand{colour: paleBlue, width: 0.7, points: plotter.XYs{{X: 0, Y: 25}, {X: 10, Y: 25}, {X: 20, Y: 50}}},
				byHand{colour: blue, width: 2.2, points: plotter.XYs{{X: 0, Y: 18.75}, {X: 10, Y: 37.5}, {X: 20, Y: 62.5}},
					entry: "wepe 62.5"},
				byHand{colour: vermillion, width: 2.2, points: plotter.XYs{{X: 0, Y: 25}, {X: 10, Y: 50}}, entry: "none 50.0"}),
		})
	for i := range other {
		evals = append(evals[:0], other[i])
	}
	same(t, "Curves of a test split", func(w io.Writer) error { return Curves(w, "", evals) }, 11, 4.5, []*plot.Plot{
		drawnByHand("test loss (training dashed)", "step", "loss (nats per image)",
			byHand{colour: blue, width: 2.2, points: plotter.XYs{{X: 0, Y: 2.5}}, entry: "rope 2.500", circled: true},
			byHand{colour: paleBlueLoss, width: 1.2, points: plotter.XYs{{X: 0, Y: 1.5}}, circled: true}),
		drawnByHand("test accuracy", "step", "top-1 accuracy (%)",
			byHand{colour: blue, width: 2.2, points: plotter.XYs{{X: 0, Y: 50}}, entry: "rope 50.0", circled: true})})
}

func TestPrecisionHasBoxesAndMasksOfTheValidationSplit(t *testing.T) {
	var evals []Eval
	for step, ap := range map[int][2]Number{3: {0.25, 0.125}, 5: {0.5, -1}, 7: {0.75, 0.375}} { // -1: no object counts
		evals = append(evals, Eval{Job: Job{Encoding: "wepe"}, Step: step, Split: Validation, TrainLoss: Number(10 - step),
			Found: Found{Boxes: map[string]Number{"AP": ap[0]}, Masks: map[string]Number{"AP": ap[1]}}})
	}
	evals = append(evals, Eval{Job: Job{Encoding: "none"}, Step: 3, Split: Validation, TrainLoss: 6,
		Found: Found{Boxes: map[string]Number{"AP": 0}, Masks: map[string]Number{"AP": 0.5}}},
		Eval{Job: Job{Encoding: "none"}, Step: 9, Split: Test},
		Eval{Job: Job{Encoding: "rope"}, Step: 4, Split: Validation, TrainLoss: 8, Found: Found{
			Boxes: map[string]Number{"AP": 0.25}}}) // without masks
	same(t, "Precision", func(w io.Writer) error { return Precision(w, evals) }, 11, 4.5, []*plot.Plot{
		drawnByHand("training loss", "step", "loss",
			byHand{colour: blue, width: 2.2, points: plotter.XYs{{X: 3, Y: 7}, {X: 5, Y: 5}, {X: 7, Y: 3}}, entry: "wepe 3.000"},
			byHand{colour: green, width: 2.2, points: plotter.XYs{{X: 3, Y: 6}}, entry: "none 6.000", circled: true},
			byHand{colour: figure.Palette[4], width: 2.2, points: plotter.XYs{{X: 4, Y: 8}}, entry: "rope 8.000",
				circled: true}),
		drawnByHand("average precision on the validation split", "step", "AP (%)",
			byHand{colour: blue, width: 2.2, points: plotter.XYs{{X: 3, Y: 25}, {X: 5, Y: 50}, {X: 7, Y: 75}},
				entry: "wepe, boxes 75.0"},
			byHand{colour: vermillion, width: 2.2, points: plotter.XYs{{X: 3, Y: 12.5}, {X: 7, Y: 37.5}},
				entry: "wepe, masks 37.5"},
			byHand{colour: green, width: 2.2, points: plotter.XYs{{X: 3, Y: 0}}, entry: "none, boxes 0.0", circled: true},
			byHand{colour: purple, width: 2.2, points: plotter.XYs{{X: 3, Y: 50}}, entry: "none, masks 50.0", circled: true},
			byHand{colour: figure.Palette[4], width: 2.2, points: plotter.XYs{{X: 4, Y: 25}}, entry: "rope, boxes 25.0",
				circled: true}),
	})
}

func TestScalarsAreCalledAsInFormulas(t *testing.T) {
	line := func(clr color.NRGBA, from, to float64, entry string) byHand {
		return byHand{colour: clr, width: 2.2, entry: entry,
			points: plotter.XYs{{X: 0, Y: from}, {X: 10, Y: (from + to) / 2}, {X: 20, Y: to}}}
	}
	same(t, "Scalars", func(w io.Writer) error { return Scalars(w, scalarsExample()) }, 8, 5.4,
		[]*plot.Plot{drawnByHand("gate λ", "step", "", line(vermillion, 1.5, 2.75, "hybrid 2.75")),
			drawnByHand("ω3′", "step", "", line(blue, 1.5, 2.75, "wepe 2.75"), line(vermillion, 0.875, 0.25, "hybrid 0.25"))},
		[]*plot.Plot{drawnByHand("α_scale", "step", "", line(blue, 0.875, 0.25, "wepe 0.25")),
			drawnByHand("zeta", "step", "", line(blue, 1.5, 2.75, "wepe 2.75"))})
	moved := withScalars("wepe", map[string]func(int) float64{"beta": func(int) float64 { return 2 },
		"gamma":    func(step int) float64 { return 0.5 - float64(step)/16 },
		"strength": func(step int) float64 { return 1 + float64(step)/1000 }})
	moved[2].Scalars["late"] = 3 // which the first row does not have
	same(t, "Scalars of which one stays", func(w io.Writer) error { return Scalars(w, moved) }, 12, 2.7,
		[]*plot.Plot{drawnByHand("γ", "step", "", line(blue, 0.5, -0.75, "wepe -0.75")),
			drawnByHand("strength σ", "step", "", line(blue, 1, 1.02, "wepe 1.02")),
			drawnByHand("late", "step", "", byHand{colour: blue, width: 2.2, points: plotter.XYs{{X: 20, Y: 3}},
				entry: "wepe 3", circled: true})})
	still := withScalars("wepe", map[string]func(int) float64{"beta": func(int) float64 { return 2 },
		"gamma":    func(step int) float64 { return 2 + float64(step)*1e-8 }, // no more than rounding
		"beta_pos": func(step int) float64 { return -2 - float64(step)*1e-8 },
		"lambda":   func(int) float64 { return 0 }, "other": func(int) float64 { return 5 }})
	same(t, "Scalars that stay", func(w io.Writer) error { return Scalars(w, still) }, 12, 5.4,
		[]*plot.Plot{drawnByHand("gate λ", "step", "", line(blue, 0, 0, "wepe 0")),
			drawnByHand("β_pos", "step", "", line(blue, -2, -2-2e-7, "wepe -2")),
			drawnByHand("β", "step", "", line(blue, 2, 2, "wepe 2"))},
		[]*plot.Plot{drawnByHand("γ", "step", "", line(blue, 2, 2+2e-7, "wepe 2")),
			drawnByHand("other", "step", "", line(blue, 5, 5, "wepe 5")), nil})
}
