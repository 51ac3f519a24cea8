// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"cmp"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
)

// The graph's normalisation of a set against (pixel·rescale − mean)/std.
func TestNormalisationIsThatOfTheSettings(t *testing.T) {
	set := noise(3, 4, 7, 3)
	rows := []int{2, 0}
	for name, p := range map[string]preprocess.Settings{
		"usual":        {Mean: [3]float64{0.485, 0.456, 0.406}, Std: [3]float64{0.229, 0.224, 0.225}},
		"rescale 1":    {Rescale: 1, Mean: [3]float64{120, 110, 100}, Std: [3]float64{50, 60, 70}},
		"rescale only": {Rescale: 1.0 / 127.5, Mean: [3]float64{1, 1, 1}},
		"none":         {},
	} {
		var a Augment
		a.Mean, a.Std = p.Normalisation()
		got := images(t, a, set, a.Plan(set, 0, 0, 0, rows))
		for i, v := range got {
			size := 4 * 7 * 3
			pixel, c := set.Image(rows[i/size])[i%size], i%3
			want := (float64(pixel)*cmp.Or(p.Rescale, 1.0/255) - p.Mean[c]) / cmp.Or(p.Std[c], 1)
			if math.Abs(v-want) > 1e-6*max(1, math.Abs(want)) {
				t.Fatalf("%s: sample %d is %g, want %g", name, i, v, want)
			}
		}
	}
}

func TestOutputSizeIsKnownOnlyWhereItIsFixed(t *testing.T) {
	for _, c := range []struct {
		p             preprocess.Settings
		height, width int
	}{
		{preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{5, 7}}, 5, 7},
		{preprocess.Settings{Fit: preprocess.FitShortest, Size: [2]int{9, 9}, Crop: [2]int{5, 7}}, 5, 7},
		{preprocess.Settings{Crop: [2]int{3, 2}}, 3, 2},
		{preprocess.Settings{Fit: preprocess.FitShortest, Size: [2]int{9, 9}}, 0, 0},
		{preprocess.Settings{Fit: preprocess.FitContain, Size: [2]int{9, 8}}, 0, 0},
		{preprocess.Settings{}, 0, 0},
	} {
		height, width, err := c.p.OutputSize()
		if height != c.height || width != c.width || (err == nil) != (c.height > 0) {
			t.Errorf("%+v: %d×%d, %v", c.p, height, width, err)
		}
		if err == nil {
			got, err := (&Picture{2, 11, make([]uint8, 66)}).Preprocess(c.p)
			if err != nil || got.Height != height || got.Width != width || len(got.Pixels) != 3*height*width {
				t.Errorf("%+v: %+v, %v", c.p, got, err)
			}
		}
	}
}

func TestAResizeBeyondTheLimitIsRefused(t *testing.T) {
	p := preprocess.Settings{Fit: preprocess.FitShortest, Size: [2]int{300, 300}, Crop: [2]int{3, 3}}
	_, err := (&Picture{1, 1000, make([]uint8, 3000)}).Preprocess(p)
	if err == nil || !strings.Contains(err.Error(), "300000×300") {
		t.Errorf("a ribbon of 1000×1 is resized to 300000×300: %v", err)
	}
}

// A ramp keeps its mean when it shrinks: (first + last)/2 whatever the kernel, up to rounding.
func TestShrinkingKeepsTheMean(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 241, 3))
	for i := range img.Pix {
		img.Pix[i] = uint8(i % img.Stride)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	for _, r := range []preprocess.Resample{preprocess.Lanczos, preprocess.Bilinear, preprocess.Bicubic, preprocess.Box,
		preprocess.Hamming} {
		p := preprocess.Settings{Fit: preprocess.FitExact, Size: [2]int{1, 1}, Resample: r}
		got, err := Image(bytes.NewReader(file.Bytes()), p)
		if err != nil || !bytes.Equal(got.Pixels, []uint8{120, 120, 120}) {
			t.Errorf("%s: %v, %v, want 120", r, got, err)
		}
	}
}

// A picture of ImageNet's usual size, as models of 224 pixels are evaluated; the decoder is about half of it.
func BenchmarkPreprocess(b *testing.B) {
	img := image.NewYCbCr(image.Rect(0, 0, 500, 375), image.YCbCrSubsampleRatio420)
	for i := range img.Y {
		img.Y[i] = uint8(i * i / 500)
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, img, &jpeg.Options{Quality: 75}); err != nil {
		b.Fatal(err)
	}
	p := preprocess.Settings{Fit: preprocess.FitShortest, Size: [2]int{256, 256}, Resample: preprocess.Bicubic,
		Crop: [2]int{224, 224}}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(bytes.NewReader(file.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Image(bytes.NewReader(file.Bytes()), p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
