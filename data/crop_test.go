// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

const augmentDir = "testdata/augment"

// cropOf decodes a window of a file.
func cropOf(t testing.TB, raw []byte, choose func(height, width int) window, height, width int,
	kernel preprocess.Resample) *Image {
	t.Helper()
	f, h, w, err := identify(raw, maxPixels)
	if err != nil {
		t.Fatal(err)
	}
	return gomlxtest.Must(f.cropped(raw, h, w, choose, height, width, kernel))(t)
}

// The expected values are from Pillow's draft, crop and resize of a box. The decoder of the standard library has no
// smaller transforms: its larger windows give another image, the others differ by rounding.
func TestCropped_ALargeWindowIsDecodedSmallerAsByPillow(t *testing.T) {
	g, _ := readAugmentGoldens(t, augmentDir)
	drafts := 0
	for _, c := range g.Cases {
		if c.Operation != "Draft" {
			continue
		}
		drafts++
		raw := gomlxtest.Must(os.ReadFile(filepath.Join(augmentDir, c.File)))(t)
		w := window{left: c.Box[0], top: c.Box[1], width: c.Box[2] - c.Box[0], height: c.Box[3] - c.Box[1]}
		got := cropOf(t, raw, func(int, int) window { return w }, c.Height, c.Width, c.Kernel)
		want := goldenCase{File: c.File, Height: c.Height, Width: c.Width, Pixels: c.Pixels}.want(t)
		counts, greatest := differences(got, want)
		if greatest > 0 && libjpeg || c.Amount == 1 && greatest > 3 {
			t.Errorf("%s at 1/%g: off by up to %d; by difference %v", c.File, c.Amount, greatest, counts[:greatest+1])
		}
	}
	if drafts != 20 {
		t.Errorf("%d cases, want 20", drafts)
	}
}

// The visible part has the bits of the whole image, whatever decoding skips: at every corner, with any subsampling,
// rotated or not, and beyond the border.
func TestCropped_HasTheBitsOfTheWholeImage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var paths []string
	for _, dir := range []string{augmentDir, goldenDir} {
		paths = append(paths, gomlxtest.Must(filepath.Glob(filepath.Join(dir, "*.*")))(t)...)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if slices.Contains([]string{".md", ".json"}, filepath.Ext(path)) || !libjpeg && name == "restart_progressive.jpg" {
			continue
		}
		raw := gomlxtest.Must(os.ReadFile(path))(t)
		whole := gomlxtest.Must(decode(raw, 0))(t)
		for k := range 40 {
			w := window{height: 1 + r.IntN(whole.Height), width: 1 + r.IntN(whole.Width)}
			w.top, w.left = r.IntN(whole.Height-w.height+1), r.IntN(whole.Width-w.width+1)
			if k%10 == 9 {
				w.top, w.left = w.top-2, w.left+1
			}
			height, width := w.height, w.width // nothing is resized, or decoded smaller
			if k%2 == 1 {
				height, width = w.height/2+1, w.width+3
			}
			var sides [2]int
			got := cropOf(t, raw, func(height, width int) window {
				sides = [2]int{height, width}
				return w
			}, height, width, preprocess.Bicubic)
			want := whole.windowed(w).Resize(height, width, preprocess.Bicubic)
			if _, greatest := differences(got, want); greatest > 0 || sides != [2]int{whole.Height, whole.Width} {
				t.Fatalf("%s, %+v of %v: off by up to %d", path, w, sides, greatest)
			}
		}
	}
}

// FuzzCrop: a window of any file is an error or has the requested size.
func FuzzCrop(f *testing.F) {
	for _, raw := range goldenFiles(f) {
		f.Add(raw, int8(-1), int8(2), uint8(3), uint8(5))
	}
	f.Fuzz(func(t *testing.T, raw []byte, top, left int8, height, width uint8) {
		kind, h, w, err := identify(raw, 1<<14)
		if err != nil {
			return
		}
		shown := window{top: int(top), left: int(left), height: 1 + int(height), width: 1 + int(width)}
		p, err := kind.cropped(raw, h, w, func(int, int) window { return shown }, 7, 5, preprocess.Bilinear)
		if err == nil && (p.Height != 7 || p.Width != 5 || len(p.Pixels) != 105) {
			t.Errorf("%+v: %d×%d", shown, p.Width, p.Height)
		}
	})
}
