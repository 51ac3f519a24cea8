// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// changing enables all operations of the host.
var changing = Augment{
	Size: [2]int{19, 23}, CropScale: [2]float64{0.3, 1}, FlipProb: 0.5, FlipUpProb: 0.5, Rotate: 20,
	Policy: "rand-m9-mstd0.5-inc1", Jitter: [4]float64{0.4, 0.4, 0.4, 0.1}, GreyProb: 0.3,
	EraseProb: 0.5, EraseNoise: true,
	Mean: [3]float64{0.5, 0.4, 0.3}, Std: [3]float64{0.2, 0.3, 0.4},
}

func TestApply_CropsResizesAndFlipsAsTheGraphDoes(t *testing.T) {
	set, rows := noise(13, 17, 11, 3), shuffled(13)[:7]
	for _, a := range []Augment{
		{FlipProb: 0.5}, {FlipUpProb: 0.5}, {FlipProb: 1, FlipUpProb: 1}, {Pad: 3, FlipProb: 0.5, FlipUpProb: 0.5},
		{Size: [2]int{31, 29}, Pad: 3, FlipProb: 0.5},
		{Size: [2]int{7, 23}, CropScale: [2]float64{0.2, 1}, FlipProb: 0.5, FlipUpProb: 0.5},
	} {
		rounding, padded := 0.0, a.Pad > 0
		if a.Size != [2]int{} {
			rounding = 1.01 / 255
		}
		inGraph := images(t, a, set, a.Plan(set, 3, 1, 0, rows))
		a.Resample = preprocess.Bilinear
		host, inTheGraph := a.Divide(set)
		if host != a {
			t.Fatalf("%+v is not for the host", a)
		}
		onHost := gomlxtest.Must(loadBatch(set, host, 3, 1, rows))(t)
		a = inTheGraph
		plan := a.Plan(onHost, 3, 1, 0, []int{0, 1, 2, 3, 4, 5, 6})
		if padded && a.Size != [2]int{} { // black that is resampled with the image is rounded with it
			rounding *= 2
		}
		gomlxtest.Near(t, fmt.Sprintf("%+v", a), images(t, a, onHost, plan), inGraph, rounding)
	}
}

// Any batch, and an image alone, have the same pixels; the images of the source are not changed.
func TestApply_DependsOnlyOnSeedEpochAndIndex(t *testing.T) {
	set, before := noise(31, 17, 11, 3), noise(31, 17, 11, 3)
	indices := shuffled(31)
	for k := range indices {
		indices[k] += k % 3 * 31
	}
	batch := func(seed int64, epoch int, indices []int) *InMemory {
		return gomlxtest.Must(loadBatch(set, changing, seed, epoch, indices))(t)
	}
	whole := batch(9, 4, indices)
	for _, size := range []int{1, 7, 11} {
		for some := range slices.Chunk(indices, size) {
			some = slices.Clone(some)
			slices.Reverse(some)
			part := batch(9, 4, some)
			for k, index := range some {
				alone := changing.Apply(&Image{Height: 17, Width: 11, Pixels: set.Row(index % 31)}, 9, 4, index)
				if !bytes.Equal(part.Row(k), whole.Row(slices.Index(indices, index))) ||
					!bytes.Equal(part.Row(k), alone.Pixels) || part.Labels[k] != set.Labels[index%31] {
					t.Fatalf("index %d in a batch of %d differs from the same in a batch of 31, or alone", index, size)
				}
			}
		}
	}
	for name, other := range map[string]*InMemory{"seed": batch(10, 4, indices), "epoch": batch(9, 5, indices)} {
		for k := range indices {
			if bytes.Equal(other.Row(k), whole.Row(k)) {
				t.Errorf("another %s shows image %d as before", name, k)
			}
		}
	}
	if !bytes.Equal(before.Pixels, set.Pixels) {
		t.Error("the images of the source were changed")
	}
}

func TestApply_GreyImagesStayGrey(t *testing.T) {
	set := noise(5, 17, 11, 1)
	a := changing
	a.EraseProb, a.Mean = 0, [3]float64{0.5, 0.5, 0.5}
	shown := gomlxtest.Must(loadBatch(set, a, 1, 0, []int{4, 2}))(t)
	if len(shown.Pixels) != 2*19*23 || shown.Channels != 1 {
		t.Fatalf("%d bytes of %d channels, want 874 of 1", len(shown.Pixels), shown.Channels)
	}
	colour := &Image{Height: 17, Width: 11}
	for _, v := range set.Row(2) {
		colour.Pixels = append(colour.Pixels, v, v, v)
	}
	for i, v := range a.Apply(colour, 1, 0, 2).Pixels {
		if v != shown.Row(1)[i/3] {
			t.Fatalf("sample %d is %d, one channel shows %d", i, v, shown.Row(1)[i/3])
		}
	}
	red := func() *Image { return &Image{Height: 1, Width: 1, Pixels: []uint8{200, 0, 0}} }
	for probability, want := range map[float64]uint8{0: 0, 1: 60} { // 0.299·200
		if got := (Augment{GreyProb: probability}).Apply(red(), 1, 0, 2).Pixels[1]; got != want {
			t.Errorf("red is grey with probability %g: green is %d, want %d", probability, got, want)
		}
	}
}

func TestApply_AnErasedBoxHasTheSpecifiedAreaAndContent(t *testing.T) {
	const height, width, images = 97, 89, 400
	mean, std := [3]float64{0.5, 0.4, 0.6}, [3]float64{0.1, 0.12, 0.08} // four deviations stay within bytes
	for _, noise := range []bool{false, true} {
		a := Augment{EraseProb: 0.25, EraseScale: [2]float64{0.05, 0.2}, EraseNoise: noise, Mean: mean, Std: std}
		erased, area, tall, n := 0.0, 0.0, 0.0, 0.0
		var sum, squares [3]float64
		for k := range images {
			p := a.Apply(&Image{Height: height, Width: width, Pixels: make([]uint8, 3*height*width)}, 2, 0, k)
			top, left, bottom, right := height, width, 0, 0
			for i := range height * width {
				if at := p.Pixels[3*i:]; at[0]|at[1]|at[2] != 0 {
					top, left = min(top, i/width), min(left, i%width)
					bottom, right = max(bottom, i/width+1), max(right, i%width+1)
				}
			}
			if bottom == 0 {
				continue
			}
			part, ratio := float64((bottom-top)*(right-left))/(height*width), float64(bottom-top)/float64(right-left)
			if ratio < 0.27 || ratio > 3.7 || part < 0.045 || part > 0.21 {
				t.Fatalf("a box of ratio %g with %g of the area, want 0.3 to 10/3 and 0.05 to 0.2", ratio, part)
			}
			if erased, area = erased+1, area+part; ratio > 1 {
				tall++
			}
			for y := top; y < bottom; y++ {
				for x := left; x < right; x++ {
					for c := range 3 {
						v := float64(p.Pixels[3*(y*width+x)+c]) / 255
						sum[c], squares[c] = sum[c]+v, squares[c]+v*v
					}
					n++
				}
			}
		}
		// 100 ± 9 of 400; a mean area of 0.125; half of them tall.
		if erased < 60 || erased > 140 || !(math.Abs(area/erased-0.125) <= 0.02) || !(math.Abs(tall/erased-0.5) <= 0.25) {
			t.Errorf("%g of %d erased, %g of the area in the mean, %g of them tall", erased, images, area/erased, tall)
		}
		for c := range 3 {
			m := sum[c] / n
			deviation := math.Sqrt(max(0, squares[c]/n-m*m)) // for equal numbers rounding may leave either sign
			want := map[bool]float64{true: std[c]}[noise]
			if !(math.Abs(m-mean[c]) <= 0.003) || !(math.Abs(deviation-want) <= 0.003) {
				t.Errorf("noise %t, channel %d: %.4f ± %.4f, want %.4f ± %.4f", noise, c, m, deviation, mean[c], want)
			}
		}
	}
}

// A strength of s varies a factor uniformly from 1−s to 1+s. Brightness multiplies, so the value 100 of an image of one
// colour scales. Contrast and saturation do not change it.
func TestApply_JitterVariesAsInTorchvision(t *testing.T) {
	p := func() *Image { return &Image{Height: 1, Width: 1, Pixels: []uint8{100, 100, 100}} }
	sum, least, greatest := 0.0, 255.0, 0.0
	const n = 2000
	for k := range n {
		v := float64(Augment{Jitter: [4]float64{0.4, 0.7, 0.7, 0}}.Apply(p(), 1, 0, k).Pixels[1])
		sum, least, greatest = sum+v, min(least, v), max(greatest, v)
	}
	if mean := sum / n; !(math.Abs(mean-99.5) <= 2) || least > 61 || least < 60 || greatest < 139 || greatest > 140 {
		t.Errorf("100 becomes %g to %g, %g in the mean, want 60 to 140 and 99.5", least, greatest, mean)
	}
	// Hue: red turned by at most a tenth of the circle towards yellow or magenta keeps its value and saturation.
	seen := map[string]bool{}
	for k := range 200 {
		c := Augment{Jitter: [4]float64{3: 0.1}}.Apply(
			&Image{Height: 1, Width: 1, Pixels: []uint8{200, 0, 0}}, 1, 0, k).Pixels
		if c[0] != 200 || min(c[1], c[2]) != 0 || max(c[1], c[2]) > 200*6/10+3 {
			t.Fatalf("red becomes %v", c)
		}
		seen[fmt.Sprint(c[1] > 60, c[2] > 60)] = true
	}
	if len(seen) != 3 {
		t.Errorf("red turns to %v, want to both sides", seen)
	}
}

// Both ends of each range are valid, the next values are not; the error names the field.
func TestValidate_RefusesStrengthsByName(t *testing.T) {
	for name, b := range map[string]struct {
		low, high, more float64
		set             func(a *Augment, v float64)
	}{
		"pad":          {0, 16_384, 1, func(a *Augment, v float64) { a.Pad = int(v) }},
		"cutout":       {0, 16_384, 1, func(a *Augment, v float64) { a.Cutout = int(v) }},
		"repeats":      {0, 100, 1, func(a *Augment, v float64) { a.Repeats = int(v) }},
		"size":         {1, 16_384, 1, func(a *Augment, v float64) { a.Size = [2]int{7, int(v)} }},
		"crop_scale":   {0.01, 1, 0.02, func(a *Augment, v float64) { a.CropScale = [2]float64{min(v, 0.01), v} }},
		"crop_ratio":   {0.01, 100, 0.02, func(a *Augment, v float64) { a.CropRatio = [2]float64{0.01, v} }},
		"flip_prob":    {0, 1, 0.01, func(a *Augment, v float64) { a.FlipProb = v }},
		"flip_up_prob": {0, 1, 0.01, func(a *Augment, v float64) { a.FlipUpProb = v }},
		"rotate":       {0, 180, 0.01, func(a *Augment, v float64) { a.Rotate = v }},
		"grey_prob":    {0, 1, 0.01, func(a *Augment, v float64) { a.GreyProb = v }},
		"erase_prob":   {0, 1, 0.01, func(a *Augment, v float64) { a.EraseProb = v }},
		"erase_scale":  {0.01, 1, 0.02, func(a *Augment, v float64) { a.EraseScale = [2]float64{0.01, v} }},
		"brightness":   {0, 10, 0.01, func(a *Augment, v float64) { a.Jitter[0] = v }},
		"contrast":     {0, 10, 0.01, func(a *Augment, v float64) { a.Jitter[1] = v }},
		"saturation":   {0, 10, 0.01, func(a *Augment, v float64) { a.Jitter[2] = v }},
		"hue":          {0, 0.5, 0.01, func(a *Augment, v float64) { a.Jitter[3] = v }},
		"mixup_alpha":  {0, 1000, 0.01, func(a *Augment, v float64) { a.MixupAlpha = v }},
		"cutmix_alpha": {0, 1000, 0.01, func(a *Augment, v float64) { a.CutmixAlpha = v }},
		"mix_prob":     {0, 1, 0.01, func(a *Augment, v float64) { a.MixProb = v }},
		"switch_prob":  {0, 1, 0.01, func(a *Augment, v float64) { a.SwitchProb = v }},
	} {
		for v, valid := range map[float64]bool{b.low: true, b.high: true, b.low - b.more: false, b.high + b.more: false} {
			var a Augment
			b.set(&a, v)
			if err := a.Validate(); (err == nil) != valid || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s %g: %v", name, v, err)
			}
		}
	}
	for name, a := range map[string]Augment{
		"erase_prob": {EraseProb: math.NaN()}, "resample": {Resample: "cubic"}, "policy": {Policy: "rand-m9-q3"},
		"std": {Std: [3]float64{1, -1, 1}}, "mean": {Mean: [3]float64{1: math.Inf(1)}}, "crop_ratio": {
			CropScale: [2]float64{0.5, 1}, CropRatio: [2]float64{0, 1}}, "pad": {Pad: 1, CropScale: [2]float64{0.5, 1}},
	} {
		oneLine(t, name, a.Validate(), name)
	}
	for _, a := range []Augment{changing, strong} {
		if err := a.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// loadBatch returns some indices of a source in an epoch, augmented by host.
func loadBatch(s Dataset, host Augment, seed int64, epoch int, indices []int) (*InMemory, error) {
	for batch, err := range Read(s, host, seed, len(indices), maps.All(map[int][]int{epoch: indices})) {
		return &batch.InMemory, err
	}
	return nil, nil
}
