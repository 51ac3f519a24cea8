// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// img is a float image [height, width, channels] of the host oracles below, which are simple, slow and independent of
// the graph.
type img struct {
	height, width, channels int
	at                      []float64
}

func newImage(height, width, channels int) img {
	return img{height, width, channels, make([]float64, height*width*channels)}
}

func (p img) index(i, j, c int) int { return (i*p.width+j)*p.channels + c }

// each fills a new image pixel by pixel.
func each(height, width, channels int, value func(i, j, c int) float64) img {
	out := newImage(height, width, channels)
	for i := range height {
		for j := range width {
			for c := range channels {
				out.at[out.index(i, j, c)] = value(i, j, c)
			}
		}
	}
	return out
}

// cropped reads a window of one image of the dataset, black outside, and optionally mirrors it.
func cropped(set *InMemory, row int, w window) img {
	return each(w.height, w.width, set.Channels, func(i, j, c int) float64 {
		if w.flip {
			j = w.width - 1 - j
		}
		i, j = i+w.top, j+w.left
		if i < 0 || j < 0 || i >= set.Height || j >= set.Width {
			return 0
		}
		return float64(set.Row(row)[(i*set.Width+j)*set.Channels+c])
	})
}

// pillow is Pillow's BILINEAR resize without its rounding: triangle of the scale's half width around
// (i+½)·scale, taps from its own integer bounds, weights divided by their sum (Resample.c, precompute_coeffs).
func pillow(p img, height, width int) img {
	weights := func(i, length, outLength int) (from int, w []float64) {
		scale := float64(length) / float64(outLength)
		support := max(scale, 1)
		centre := (float64(i) + 0.5) * scale
		from = max(int(centre-support+0.5), 0)
		to := min(int(centre+support+0.5), length)
		sum := 0.0
		for x := from; x < to; x++ {
			v := max(0, 1-math.Abs((float64(x)-centre+0.5)/support))
			w, sum = append(w, v), sum+v
		}
		for k := range w {
			w[k] /= sum
		}
		return from, w
	}
	return each(height, width, p.channels, func(i, j, c int) float64 {
		i0, wi := weights(i, p.height, height)
		j0, wj := weights(j, p.width, width)
		sum := 0.0
		for di := range wi {
			for dj := range wj {
				sum += wi[di] * wj[dj] * p.at[p.index(i0+di, j0+dj, c)]
			}
		}
		return sum
	})
}

// noise is a dataset of random pixels; tests use unequal prime sides.
func noise(n, height, width, channels int) *InMemory {
	r := rand.New(rand.NewPCG(7, 11))
	s := &InMemory{
		Info: Info{Name: "noise", Height: height, Width: width, Channels: channels, Classes: []string{"a", "b", "c"}},
	}
	for i := range n {
		s.Labels = append(s.Labels, int32(i%3))
	}
	for range n * height * width * channels {
		s.Pixels = append(s.Pixels, uint8(r.UintN(256)))
	}
	return s
}

// shuffled is a fixed order of 0…n-1 for prime n.
func shuffled(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = (3*i + 1) % n
	}
	return rows
}

// windowOf reads a plan's window back; the oracles check its lines.
func windowOf(v [8]float32) window {
	return window{
		top: int(v[2]), height: int(v[3] - v[2]), left: int(v[6]), width: int(v[7] - v[6]), flip: v[4] < 0,
	}
}

func inputs(pixels *tensors.Tensor, plan *Plan) []any {
	in := []any{pixels}
	for _, t := range plan.Tensors() {
		in = append(in, t)
	}
	return in
}

// images runs the graph of one plan.
func images(t testing.TB, a Augment, set *InMemory, plan *Plan) []float64 {
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	return gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{a.Images(in[0], in[1:])}
	}, inputs(set.Tensor(), plan)...)[0]
}

func TestImages_CropsPaddingAndFlipsByWholePixelsAreBitExact(t *testing.T) {
	rows := shuffled(13)[:11]
	for _, c := range []struct {
		a                 Augment
		channels, changed int // minimum number of changed images
	}{
		{Augment{}, 1, 0}, {Augment{}, 3, 0}, {Augment{FlipProb: 0.5}, 3, 3}, {Augment{Pad: 2}, 3, 3},
		{Augment{Pad: 3, FlipProb: 0.5}, 1, 3}, {Augment{Pad: 11, FlipProb: 1}, 3, 3},
	} {
		set := noise(13, 7, 5, c.channels)
		plan := c.a.Plan(set, 5, 2, 0, rows)
		var want []float64
		changed := 0
		for k, row := range rows {
			w := windowOf(plan.Windows[k])
			if w != (window{height: 7, width: 5}) {
				changed++
			}
			for _, v := range cropped(set, row, w).at {
				want = append(want, float64(float32(v)*float32(1./255)))
			}
		}
		if changed < c.changed {
			t.Fatalf("%+v: only %d of %d images change: the test would show nothing", c.a, changed, len(rows))
		}
		gomlxtest.Near(t, fmt.Sprintf("%+v", c.a), images(t, c.a, set, plan), want, 0)
	}
}

func TestImages_ResizingMatchesNaiveResamplingOfTheCrop(t *testing.T) {
	set, rows := noise(13, 17, 11, 3), shuffled(13)[:5]
	for name, a := range map[string]Augment{
		"enlarge":                {Size: [2]int{31, 29}},
		"reduce":                 {Size: [2]int{5, 3}},
		"one_of_each":            {Size: [2]int{7, 23}},
		"enlarge_padded_flipped": {Size: [2]int{31, 29}, Pad: 3, FlipProb: 0.5},
		"reduce_padded_flipped":  {Size: [2]int{5, 3}, Pad: 3, FlipProb: 0.5},
		"resized_crop":           {Size: [2]int{13, 7}, CropScale: [2]float64{0.2, 1}, FlipProb: 0.5},
		"resized_crop_own_size":  {CropScale: [2]float64{0.3, 0.6}, CropRatio: [2]float64{0.5, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := a.Plan(set, 3, 1, 0, rows)
			height, width := a.OutputSize(set.Height, set.Width)
			var want []float64
			for k, row := range rows {
				for _, v := range pillow(cropped(set, row, windowOf(plan.Windows[k])), height, width).at {
					want = append(want, v/255)
				}
			}
			gomlxtest.Near(t, name, images(t, a, set, plan), want, 2e-6)
		})
	}
}

// The graph's normalization against (pixel·rescale − mean)/std.
func TestImages_NormalizationIsThatOfTheSettings(t *testing.T) {
	set, rows := noise(3, 4, 7, 3), []int{2, 0}
	for name, p := range map[string]preprocess.Settings{
		"usual":        {Mean: [3]float64{0.51, 0.49, 0.44}, Std: [3]float64{0.27, 0.26, 0.28}},
		"rescale 1":    {Rescale: 1, Mean: [3]float64{120, 110, 100}, Std: [3]float64{50, 60, 70}},
		"rescale only": {Rescale: 1.0 / 127.5, Mean: [3]float64{1, 1, 1}},
		"none":         {},
	} {
		var a Augment
		a.Mean, a.Std = p.Normalization()
		var want []float64
		for _, row := range rows {
			for i, v := range set.Row(row) {
				want = append(want, (float64(v)*cmp.Or(p.Rescale, 1.0/255)-p.Mean[i%3])/cmp.Or(p.Std[i%3], 1))
			}
		}
		gomlxtest.Near(t, name, images(t, a, set, a.Plan(set, 0, 0, 0, rows)), want, 1e-6)
	}
}

func TestImages_CutoutZeroesOneClippedSquare(t *testing.T) {
	set, rows := noise(31, 17, 13, 3), shuffled(31)
	plain := Augment{Mean: [3]float64{0.51, 0.49, 0.44}, Std: [3]float64{0.27, 0.26, 0.28}}
	a := plain
	a.Cutout = 6
	plan := a.Plan(set, 3, 1, 0, rows)
	want := images(t, plain, set, plan)
	clipped := 0
	for k := range rows {
		box := plan.Cutout[k] // the centre is a pixel: 3 to 6 remain of 6 lines, fewer than 6 at the border alone
		for axis, length := range []float32{17, 13} {
			from, to := box[axis], box[axis+2]
			if n := to - from; n < 3 || n > 6 || from < 0 || to > length || n < 6 && from != 0 && to != length {
				t.Errorf("image %d: box %v", k, box)
			}
		}
		if (box[2]-box[0])*(box[3]-box[1]) < 36 {
			clipped++
		}
		for i := int(box[0]); i < int(box[2]); i++ {
			for j := int(box[1]); j < int(box[3]); j++ {
				copy(want[((k*17+i)*13+j)*3:], []float64{0, 0, 0})
			}
		}
	}
	gomlxtest.Near(t, "images", images(t, a, set, plan), want, 0)
	if clipped == 0 || clipped == len(rows) {
		t.Errorf("%d of %d squares are clipped, want some and not all", clipped, len(rows))
	}
}

func TestImages_MixingTakesTheStatedShareOfThePartner(t *testing.T) {
	set, rows := noise(13, 7, 5, 3), shuffled(13)[:11]
	plain := Augment{Pad: 2, FlipProb: 0.5, Cutout: 2}
	for name, alphas := range map[string][2]float64{"mixup": {0.8, 0}, "cutmix": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			a := plain
			a.MixupAlpha, a.CutmixAlpha = alphas[0], alphas[1]
			plan := a.Plan(set, 3, 1, 4, rows)
			base, got := images(t, plain, set, plan), images(t, a, set, plan)
			m := plan.Mix
			var want []float64
			inside := 0
			for k := range rows {
				for i := range 7 {
					for j := range 5 {
						keep := 1.0
						if float32(i) >= m[0] && float32(j) >= m[1] && float32(i) < m[2] && float32(j) < m[3] {
							keep = float64(m[4])
							inside++
						}
						for c := range 3 {
							own := base[((k*7+i)*5+j)*3+c]
							partner := base[((int(plan.Partners[k])*7+i)*5+j)*3+c]
							want = append(want, keep*own+(1-keep)*partner)
						}
					}
				}
			}
			gomlxtest.Near(t, name, got, want, 3e-7)
			share := 1 - (1-float64(m[4]))*float64(inside)/float64(len(rows)*7*5)
			if inside == 0 || !(math.Abs(share-float64(m[5])) <= 1e-6) || share <= 0 || share >= 1 {
				t.Errorf("λ of the labels is %g, the pixels keep %g", m[5], share)
			}
		})
	}
}

func TestSoftLabels_BlendPartnersAndSmooth(t *testing.T) {
	plan := &Plan{
		Indices: []int64{0, 1, 2}, Labels: []int32{4, 0, 4}, Windows: make([][8]float32, 3),
		Cutout: make([][4]float32, 3), Partners: []int64{1, 2, 0}, Mix: [6]float32{0, 0, 0, 0, 1, 0.75},
		Grids: make([]int64, 3),
	}
	got := gomlxtest.Run(t, func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{SoftLabels(in[1:], 5, 0.1)}
	}, inputs(noise(3, 2, 2, 1).Tensor(), plan)...)[0]
	// 0.9·λ + 0.1/5 and 0.9·(1-λ) + 0.1/5 by hand.
	gomlxtest.Near(t, "targets", got, []float64{
		0.245, 0.02, 0.02, 0.02, 0.695,
		0.695, 0.02, 0.02, 0.02, 0.245,
		0.02, 0.02, 0.02, 0.02, 0.92,
	}, 1e-6)
}
