// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package report

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/wepe-go/wepe/internal/figure"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

func history(encoding string, seed int64, top1 ...float64) []Eval {
	var evals []Eval
	for i, accuracy := range top1 {
		evals = append(evals, Eval{Job: Job{Encoding: encoding, Seed: seed}, Step: 10 * i, Split: Validation,
			Metrics: Metrics{Loss: Number(3 - accuracy), Top1: Number(accuracy), Images: 7}, TrainLoss: Number(2 - accuracy)})
	}
	return evals
}

func TestCurvesDrawsEveryEncodingInItsColour(t *testing.T) {
	evals := append(history("wepe", 1, 0.1, 0.4, 0.6), history("wepe", 2, 0.2, 0.5, 0.5)...)
	evals = append(evals, history("none", 1, 0.1, 0.15, 0.2)...)
	picture, colours := decode(t, func(w io.Writer) error { return Curves(w, "shapes", evals) })
	size := picture.Bounds().Size()
	if size.X != 11*figure.DotsPerInch || size.Y != 45*figure.DotsPerInch/10 {
		t.Errorf("size %v", size)
	}
	count := colours(picture.Bounds())
	for i, want := range []bool{true, true, false} {
		if got := count[figure.Palette[i]] > 200; got != want {
			t.Errorf("colour %d covers %d pixels, drawn should be %v", i, count[figure.Palette[i]], want)
		}
	}
}

// Without a validation split an evaluation has no images: the training loss is drawn, and no accuracy of 0.
func TestEvaluationsWithoutImagesAreNotDrawn(t *testing.T) {
	evals := history("wepe", 1, 0.1, 0.4, 0.6)
	for i := range evals {
		evals[i].Metrics = Metrics{}
	}
	curve := collect(evals, Validation)[0]
	for name, value := range map[string]func(Eval) float64{"loss": loss, "top-1": topOne} {
		if got := points(curve.seeds, value); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := points(curve.seeds, trainLoss); len(got) != 3 {
		t.Errorf("training loss: %v", got)
	}
	if err := Curves(io.Discard, "", evals); err != nil {
		t.Error(err)
	}
	if table := gomlxtest.Must(Epochs(Rows{Evals: evals}))(t).Text(); strings.Contains(table, "wepe") {
		t.Error(table)
	}
}

func TestPointsAreMeansOverTheStepsThatAllSeedsHave(t *testing.T) {
	curves := collect(append(history("wepe", 1, 0.25, 0.5, 0.75), history("wepe", 2, 0.75, 1)...), Validation)
	got := points(curves[0].seeds, func(e Eval) float64 { return float64(e.Top1) })
	if want := (plotter.XYs{{X: 0, Y: 0.5}, {X: 10, Y: 0.75}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCollectTakesTheLaterRowOfAStep(t *testing.T) {
	rows := history("wepe", 1, 0.1, 0.2, 0.3)
	resumed := rows[1]
	resumed.Top1 = 0.7
	curves := collect(append(rows, resumed), Validation)
	if want := []Eval{rows[0], resumed, rows[2]}; len(curves) != 1 || len(curves[0].seeds) != 1 ||
		!reflect.DeepEqual(curves[0].seeds[0], want) {
		t.Errorf("got %+v\nwant %+v", curves, want)
	}
}

func TestCurvesOfDifferentDataAreNamedApart(t *testing.T) {
	fifth := history("wepe", 1, 0.1)
	fifth[0].Fraction = 0.2
	whole := history("wepe", 1, 0.2)
	whole[0].Fraction = 1
	third := history("wepe", 1, 0.3)
	third[0].Fraction = 1. / 3
	curves := collect(slices.Concat(fifth, whole, third), Validation)
	if len(curves) != 3 || curves[0].name != "wepe, 20%" || curves[1].name != "wepe, 100%" ||
		curves[2].name != "wepe, 33.3%" {
		t.Errorf("got %+v", curves)
	}
}

// Side 16 is evaluated with two seeds; its name is without the size.
func TestSizesDrawsTheMeanOverSeedsOfSquareImages(t *testing.T) {
	at := func(seed int64, recipe, size string, top1 Number) Result {
		return Result{Job: Job{Recipe: recipe, Encoding: "wepe", Seed: seed}, ImageSize: size,
			Test: Metrics{Top1: top1, Images: 7}}
	}
	rows := []Result{at(1, "small at 24x24", "24x24", 0.25), at(1, "small", "16x16", 0.5), at(2, "small", "16x16", 0.25),
		at(1, "small at 8x32", "8x32", 0.75), at(2, "small at 24x24", "24x24", 0.125), at(1, "small", "", 0.875)}
	want := drawnByHand("test accuracy of the same weights at other sizes", "side of the images (pixels)",
		"top-1 accuracy (%)",
		byHand{colour: paleBlue, width: 0.7, points: plotter.XYs{{X: 16, Y: 50}, {X: 24, Y: 25}}},
		byHand{colour: paleBlue, width: 0.7, points: plotter.XYs{{X: 16, Y: 25}, {X: 24, Y: 12.5}}},
		byHand{colour: blue, width: 2.2, points: plotter.XYs{{X: 16, Y: 37.5}, {X: 24, Y: 18.75}}, entry: "wepe 18.8"})
	want.X.Tick.Marker = plot.ConstantTicks{{Value: 16, Label: "16"}, {Value: 24, Label: "24"}}
	same(t, "Sizes", func(w io.Writer) error { return Sizes(w, rows) }, 5.5, 4.5, []*plot.Plot{want})
}
