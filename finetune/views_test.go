// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// viewed is an image [height, width, 3] as a view shows it, by loops: a crop from top and left on, enlarged by linear
// interpolation between the centres of pixels, whose border repeats, and mirrored.
func viewed(pixels []uint8, height, width, top, left, h, w int, mirror bool) []float32 {
	at := func(i, out, in int) (int, int, float64) {
		place := min(max((float64(i)+0.5)*float64(in)/float64(out)-0.5, 0), float64(in-1))
		first := int(place)
		return first, min(first+1, in-1), place - float64(first)
	}
	out := make([]float32, len(pixels))
	for y := range height {
		y0, y1, dy := at(y, height, h)
		for x := range width {
			column := x
			if mirror {
				column = width - 1 - x
			}
			x0, x1, dx := at(column, width, w)
			for c := range 3 {
				v := func(y, x int) float64 { return float64(pixels[3*((top+y)*width+left+x)+c]) }
				out[3*(y*width+x)+c] = float32((1-dy)*((1-dx)*v(y0, x0)+dx*v(y0, x1)) + dy*((1-dx)*v(y1, x0)+dx*v(y1, x1)))
			}
		}
	}
	return out
}

func TestTestTimeAugmentationAveragesTheProbabilitiesOfViews(t *testing.T) {
	m := trained(t)
	set := dataset(5, 4) // 4×6 pixels: crops of 4×5, of 3.5 and 5.25 rounded
	probabilities := func(pixels []float32) []float64 {
		one := &data.Memory{Info: set.Info, Float: pixels, Pixels: make([]uint8, len(pixels))}
		one.Labels = []int32{0}
		logits := gomlxtest.Must(m.logitsOf(one))(t)[0]
		total, out := logSumExp(logits), make([]float64, len(logits))
		for k, v := range logits {
			out[k] = math.Exp(float64(v) - total)
		}
		return out
	}
	type crop struct{ top, left, h, w int }
	want := map[string][][]float64{}
	for views, crops := range map[string][]crop{
		viewsFlip: {{0, 0, 4, 6}}, viewsTenCrop: {{0, 0, 4, 5}, {0, 1, 4, 5}, {0, 0, 4, 5}, {0, 1, 4, 5}, {0, 0, 4, 5}},
	} {
		for i := range set.Len() {
			mean := make([]float64, 7)
			for _, c := range crops {
				for _, mirror := range []bool{false, true} {
					for k, p := range probabilities(viewed(set.Row(i), 4, 6, c.top, c.left, c.h, c.w, mirror)) {
						mean[k] += p / float64(2*len(crops))
					}
				}
			}
			want[views] = append(want[views], mean)
		}
	}
	plain := gomlxtest.Must(m.Evaluate(set))(t)
	for _, views := range []string{viewsFlip, viewsTenCrop} {
		if err := m.AverageViews(views); err != nil {
			t.Fatal(err)
		}
		logits, loss := gomlxtest.Must(m.logitsOf(set))(t), 0.0
		for i, row := range logits {
			got := make([]float64, len(row))
			for k, v := range row {
				got[k] = math.Exp(float64(v))
			}
			gomlxtest.NearAbs(t, views, got, want[views][i], 2e-6)
			loss -= math.Log(want[views][i][set.Labels[i]]) / float64(set.Len())
		}
		if got := gomlxtest.Must(m.Evaluate(set))(t); !(math.Abs(float64(got.Loss)-loss) <= 1e-5) || got == plain {
			t.Errorf("%s: loss %g, want %g, of the images alone %g", views, got.Loss, loss, plain.Loss)
		}
	}
	if err := m.AverageViews(viewsNone); err != nil {
		t.Fatal(err)
	}
	if got := gomlxtest.Must(m.Evaluate(set))(t); got != plain {
		t.Errorf("back to the images alone: %+v, want %+v", got, plain)
	}
	m.Recipe.Aspect = AspectKeep
	refused(t, "grids of their own", m.AverageViews(viewsFlip), "test-time augmentation")
	refused(t, "views", m.AverageViews("five"), `unknown test-time augmentation "five"`, viewsTenCrop)
	if slices.Equal(want[viewsFlip][0], want[viewsTenCrop][0]) {
		t.Error("the views do not differ")
	}
}

// Of 13×21 pixels the crops have 11×18, ⅞ of 11.4 and 18.4.
func TestTenCropsAreTheCornersTheMiddleAndTheirMirrors(t *testing.T) {
	const height, width, h, w = 13, 21, 11, 18
	set := &data.Memory{Pixels: make([]uint8, height*width*3)}
	images := make([]float32, len(set.Pixels))
	for i := range images {
		set.Pixels[i] = uint8(i * i % 251)
		images[i] = float32(set.Pixels[i])
	}
	got := gomlxtest.Run(t, func(in []*Node) []*Node { return viewsOf(in[0], viewsTenCrop) },
		tensors.FromFlatDataAndDimensions(images, 1, height, width, 3))
	corners := [][2]int{{0, 0}, {0, width - w}, {height - h, 0}, {height - h, width - w}, {1, 1}}
	for i, view := range got {
		at, want := corners[i%5], []float64{}
		for _, v := range viewed(set.Pixels, height, width, at[0], at[1], h, w, i >= 5) {
			want = append(want, float64(v))
		}
		gomlxtest.NearAbs(t, fmt.Sprint("view ", i), view, want, 1e-3)
	}
	if len(got) != 10 {
		t.Errorf("%d views", len(got))
	}
}
