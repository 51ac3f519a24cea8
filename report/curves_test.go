// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

func history(encoding string, seed int64, top1 ...float64) []Eval {
	var evals []Eval
	for i, accuracy := range top1 {
		evals = append(evals, Eval{Job: Job{Encoding: encoding, Seed: seed}, Step: 10 * i, Split: Validation,
			Metrics:   Metrics{Loss: JSONFloat(3 - accuracy), Top1: JSONFloat(accuracy), Images: 7},
			TrainLoss: JSONFloat(2 - accuracy)})
	}
	return evals
}

// Without a validation split an evaluation has no images: the training loss is drawn, and no accuracy of 0.
func TestEvaluationsWithoutImagesAreNotDrawn(t *testing.T) {
	evals := history("wepe", 1, 0.1, 0.4, 0.6)
	for i := range evals {
		evals[i].Metrics = Metrics{}
	}
	drawn, known := collect(evals, Validation)[0], func(v float64) bool { return !math.IsNaN(v) }
	for name, value := range map[string]func(Eval) float64{"loss": loss, "top-1": topOne} {
		is.Equal(t, name+" is drawn", slices.ContainsFunc(lines([]curve{drawn}, value)[0].Y, known), false)
	}
	if got := lines([]curve{drawn}, trainLoss)[0].Y; len(got) != 3 || !known(got[0]) {
		t.Errorf("training loss: %v", got)
	}
	gomlxtest.NoError(t, PlotCurves(io.Discard, "", evals))
}

func TestLinesAreMeansAndRangesOverTheStepsThatAllSeedsHave(t *testing.T) {
	curves := collect(append(history("wepe", 1, 0.25, 0.5, 0.75), history("wepe", 2, 0.75, 1)...), Validation)
	got := lines(curves, func(e Eval) float64 { return float64(e.Top1) })
	is.Equal(t, "lines", got, []figure.Line{{Name: "wepe", X: []float64{0, 10}, Y: []float64{0.5, 0.75},
		Low: []float64{0.25, 0.5}, High: []float64{0.75, 1}}})
}

func TestCollectTakesTheLaterRowOfAStep(t *testing.T) {
	rows := history("wepe", 1, 0.1, 0.2, 0.3)
	resumed := rows[1]
	resumed.Top1 = 0.7
	curves := collect(append(rows, resumed), Validation)
	is.Equal(t, "curves", len(curves), 1)
	is.Equal(t, "seeds", curves[0].seeds, [][]Eval{{rows[0], resumed, rows[2]}})
}

func TestCurvesOfDifferentDataAreNamedApart(t *testing.T) {
	evals := slices.Repeat(history("wepe", 1, 0.1), 3)
	evals[0].Fraction, evals[1].Fraction, evals[2].Fraction = 0.2, 1, 1./3
	var names []string
	for _, c := range collect(evals, Validation) {
		names = append(names, c.name)
	}
	is.Equal(t, "names", names, []string{"wepe, 20%", "wepe, 100%", "wepe, 33.3%"})
}

func TestSizes_OfSquareImages(t *testing.T) {
	at := func(seed int64, recipe, size string, top1 JSONFloat) Result {
		return Result{Job: Job{Recipe: recipe, Encoding: "wepe", Seed: seed}, ImageSize: size,
			Test: Metrics{Top1: top1, Images: 7}}
	}
	evals, sides := bySide([]Result{at(1, "small at 24x24", "24x24", 0.25), at(1, "small", "16x16", 0.5),
		at(2, "small", "16x16", 0.25), at(1, "small at 8x32", "8x32", 0.75), at(1, "small", "", 0.875),
		at(2, "small at 24x24", "24x24", 0.125)})
	got := lines(collect(evals, Test), topOne)
	is.Equal(t, "curves", len(got), 1)
	is.Equal(t, "curve", [][]float64{got[0].X, got[0].Y}, [][]float64{{16, 24}, {37.5, 18.75}})
	is.Equal(t, "sides", sides, []int{16, 16, 24, 24})
}

// Scalars that change in no run are left out, as long as one changes by more than rounding; known ones come first.
func TestScalarNames(t *testing.T) {
	rows := func(scalars ...map[string]JSONFloat) []Eval {
		evals := history("wepe", 1, make([]float64, len(scalars))...)
		for i, s := range scalars {
			evals[i].Scalars = s
		}
		return evals
	}
	type at = map[string]JSONFloat
	for want, evals := range map[string][]Eval{
		"[]":                         history("learned", 1, 0.1, 0.2),
		"[lambda omega3 zeta]":       rows(at{"zeta": 1, "omega3": 2, "lambda": 3}, at{"zeta": 2, "omega3": 1, "lambda": 1}),
		"[gamma late]":               rows(at{"beta": 2, "gamma": .5}, at{"beta": 2, "gamma": .25, "late": 3}),
		"[lambda beta_pos beta abc]": rows(at{"abc": 5, "beta": 2, "lambda": 0, "beta_pos": -2}, at{"beta_pos": -2.000001}),
	} {
		is.Equal(t, "scalars", fmt.Sprint(scalarNames(collect(evals, Validation))), want)
	}
}

func TestTrainingFigures_OneForEachQuantity(t *testing.T) {
	classifier, detector, test := history("wepe", 1, 0.1, 0.4), history("wepe", 1, 0, 0), history("wepe", 1, 0.5)
	for i := range 2 {
		classifier[i].Scalars = map[string]JSONFloat{"lambda": JSONFloat(i)}
		detector[i].Boxes = map[string]JSONFloat{"AP": JSONFloat(i) - 1}
	}
	test[0].Split = Test
	for want, evals := range map[int][]Eval{3: classifier, 2: detector, 0: nil} {
		is.Equal(t, "figures", len(gomlxtest.Must(TrainingFigures(evals))(t)), want)
	}
	is.Equal(t, "figures of test rows", len(gomlxtest.Must(TrainingFigures(test))(t)), 2)
	if PlotCurves(io.Discard, "", nil) == nil || PlotScalars(io.Discard, detector) == nil ||
		PlotSizes(io.Discard, nil) != nil {
		t.Error("want errors of curves and scalars of nothing, and no error of sizes")
	}
}
