// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package finetune

import (
	"fmt"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// viewed computes a view of an image [height, width, 3] by loops: a crop from top and left, enlarged by linear
// interpolation between the centres of pixels with a repeated border, and mirrored.
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

// The mean score of an image and its equal mirror image is the image's, and of others the mean of both.
func TestViewsAverageTheScoresOfTheModel(t *testing.T) {
	gomlxtest.OnGo(t)
	m := trained(t)
	same := dataset(5, 4) // [image, row, column, channel], 6 columns of 3 channels
	mirror, set := dataset(5, 4), dataset(5, 4)
	for i := range same.Pixels {
		from := i - i%18 + 15 - i%18/3*3 + i%3
		mirror.Pixels[i] = set.Pixels[from]
		if from < i {
			same.Pixels[i] = same.Pixels[from]
		}
	}
	for _, scores := range []string{"", "softmax", "sigmoid", "none"} {
		m.Scores = scores
		scored := func(views string, images *data.Memory) (all [][]float64) {
			if err := m.AverageViews(views); err != nil {
				t.Fatal(err)
			}
			for _, logits := range gomlxtest.Must(m.logitsOf(images))(t) {
				all = append(all, m.probabilities(logits))
			}
			return all
		}
		one, two, mirrored := scored(viewsNone, same), scored(viewsFlip, same), scored(viewsNone, mirror)
		plain, both := scored(viewsNone, set), scored(viewsFlip, set)
		for i := range one {
			gomlxtest.NearAbs(t, scores+": a symmetric image", two[i], one[i], 2e-6)
			for k := range plain[i] {
				plain[i][k] = (plain[i][k] + mirrored[i][k]) / 2
			}
			gomlxtest.NearAbs(t, scores+": mean", both[i], plain[i], 2e-6)
		}
	}

	m.Scores = ""
	loss := 0.0
	for i, p := range softmaxOf(t, m, set) { // with viewsFlip
		loss -= math.Log(p[set.Labels[i]]) / float64(set.Len())
	}
	if got := gomlxtest.Must(m.Evaluate(set))(t); !(math.Abs(float64(got.Loss)-loss) <= 1e-5) {
		t.Errorf("loss %g, want %g", got.Loss, loss)
	}
	m.Recipe.Aspect = AspectKeep
	refused(t, "grids of their own", m.AverageViews(viewsFlip), "test-time augmentation")
	refused(t, "views", m.AverageViews("five"), `unknown test-time augmentation "five"`, viewsTenCrop)
}

func TestTheMeanOfSigmoidsKeepsTheDigitsOfLargeLogits(t *testing.T) {
	got := gomlxtest.Run(t, func(in []*Node) []*Node { return []*Node{averageOf(in[0], "sigmoid")} },
		tensors.FromValue([][][]float32{{{30, -30, 0, 90}}, {{30, -30, 2, -90}}}))
	p := (0.5 + 1/(1+math.Exp(-2))) / 2
	gomlxtest.NearAbs(t, "logits", got[0], []float64{30, -30, math.Log(p / (1 - p)), 0}, 1e-5)
}

// Of 13×21 pixels the crops have 11×18: ⅞ are 11.4 and 18.4.
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
