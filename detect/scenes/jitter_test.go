// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// coco1024 is the jitter of ViTDet's recipes.
var coco1024 = Jitter{Height: 1024, Width: 1024, Low: 0.1, High: 2, Flip: 0.5}

// By hand from ResizeScale and FixedSizeCrop: fit = scale·min(H/h, W/w), sides round(h·fit), half to even; the offset
// is the free range times one number for both axes, rounded likewise.
func TestAViewIsThatOfDetectron2(t *testing.T) {
	for _, c := range []struct {
		jitter        Jitter
		height, width int
		scale, place  float64
		want          view
	}{
		{coco1024, 480, 640, 1, 0.3, view{rows: 768, cols: 1024}},                                    // fit 1.6
		{coco1024, 480, 640, 2, 0.25, view{rows: 1536, cols: 2048, top: 128, left: 256}},             // 3.2; range 512, 1024
		{coco1024, 480, 640, 0.1, 0.9, view{rows: 77, cols: 102}},                                    // 76.8, 102.4
		{coco1024, 640, 427, 1.5, 0.5, view{rows: 1536, cols: 1025, top: 256, left: 0}},              // 2.4: 1024.8; ½ to 0
		{Jitter{Height: 5, Width: 5}, 5, 10, 1, 0, view{rows: 2, cols: 5}},                           // 2.5 to 2
		{Jitter{Height: 5, Width: 5}, 7, 10, 1, 0, view{rows: 4, cols: 5}},                           // 3.5 to 4
		{Jitter{Height: 30, Width: 20}, 10, 10, 3, 0.4, view{rows: 60, cols: 60, top: 12, left: 16}}, // range 30, 40
		{Jitter{Height: 8, Width: 8}, 1, 100, 0.1, 0, view{rows: 1, cols: 1}},
	} {
		equal(t, fmt.Sprintf("%+v", c), c.jitter.view(c.height, c.width, false, c.scale, c.place), c.want)
	}
}

func TestJitter_IsAFunctionOfSeedEpochAndIndex(t *testing.T) {
	s := at(t, Generated{Count: 3, Height: 40, Width: 53, Seed: 1}, 2)
	j := Jitter{Height: 47, Width: 61, Low: 0.1, High: 2, Flip: 0.5}
	before, first := *s, j.Apply(s, 5, 6, 7)
	equal(t, "the same call", j.Apply(s, 5, 6, 7), first)
	equal(t, "the scene afterwards", *s, before)
	for _, other := range []*Scene{j.Apply(s, 4, 6, 7), j.Apply(s, 5, 5, 7), j.Apply(s, 5, 6, 6)} {
		if slices.Equal(first.Image.Pixels, other.Image.Pixels) {
			t.Error("another call gives the same")
		}
	}
	small := 0 // scales in the lowest quarter of 0.1 to 2
	for epoch := range 400 {
		got := j.Apply(s, 1, epoch, 0)
		if scale := float64(got.Rows) / (40 * 61.0 / 53); scale < 0.1+1.9/4 { // the smaller ratio
			small++
		}
	}
	if small < 60 || small > 140 {
		t.Errorf("%d of 400 scales are in the lowest quarter", small)
	}
}

// An image at its own size, flipped or not, padded.
func TestImagesMoveWithTheirObjects(t *testing.T) {
	s := at(t, Generated{Count: 30, Height: 40, Width: 53, Seed: 1}, 7)
	j := Jitter{Height: 43, Width: 61}
	for _, flip := range []bool{false, true} {
		got := j.apply(s, view{flip: flip, rows: 40, cols: 53})
		equal(t, "sides and objects", [3]int{got.Rows, got.Cols, len(got.Objects)}, [3]int{40, 53, len(s.Objects)})
		source := func(x int) int {
			if flip {
				return 52 - x
			}
			return x
		}
		for y := range 43 {
			for x := range 61 {
				want, inside := [3]uint8{}, y < 40 && x < 53
				if inside {
					want = [3]uint8(s.Image.Pixels[3*(y*53+source(x)):])
				}
				if p := [3]uint8(got.Image.Pixels[3*(y*61+x):]); p != want {
					t.Fatalf("flip %v: pixel %d, %d is %v, want %v", flip, y, x, p, want)
				}
				for k, o := range got.Objects {
					if o.Mask.Decode()[y*61+x] != (inside && s.Objects[k].Mask.Decode()[y*53+source(x)]) {
						t.Fatalf("flip %v: object %d at %d, %d", flip, k, y, x)
					}
				}
			}
		}
		for k, o := range got.Objects {
			if o.Box != o.Mask.Box() || o.Class != s.Objects[k].Class {
				t.Errorf("object %d: %+v", k, o)
			}
		}
	}
	v := view{rows: 80, cols: 106, top: 21, left: 33}
	whole := s.Image.Resize(80, 106, preprocess.Bilinear) // as in Pillow
	got := j.apply(s, v)
	for y := range 43 {
		at := 3 * ((y+21)*106 + 33)
		equal(t, "row of the enlarged image", got.Image.Pixels[3*y*61:3*(y+1)*61], whole.Pixels[at:at+3*61])
	}
}

// The same object as polygon, as mask and as box: polygons are transformed exactly.
func TestPolygonsMasksAndBoxesMoveAlike(t *testing.T) {
	const height, width = 60, 90
	polygon := []float64{12, 10, 66, 10, 66, 40, 12, 40}
	mask := gomlxtest.Must(maskOf(polygon, height, width))(t)
	box := coco.Box{12, 10, 54, 30}
	s := &Scene{Rows: height, Cols: width, Image: &data.Image{Height: height, Width: width,
		Pixels: make([]uint8, 3*height*width)},
		Objects: []Object{{Box: box, Mask: mask, Polygons: [][]float64{polygon}}, {Box: box, Mask: mask}, {Box: box}}}
	j := Jitter{Height: 80, Width: 100}
	for _, c := range []struct {
		view view
		want coco.Box
	}{
		{view{rows: 60, cols: 90}, box},
		{view{rows: 60, cols: 90, flip: true}, coco.Box{24, 10, 54, 30}},        // 90−66
		{view{rows: 90, cols: 135, top: 7, left: 20}, coco.Box{0, 8, 79, 45}},   // by 1.5: 18…99, 15…60; the left is cut
		{view{rows: 120, cols: 180, top: 30, left: 40}, coco.Box{0, 0, 92, 50}}, // by 2: 24…132, 20…80
		{view{rows: 30, cols: 45, flip: true}, coco.Box{12, 5, 27, 15}},
		{view{rows: 240, cols: 360, top: 0, left: 260}, coco.Box{0, 40, 4, 40}}, // by 4: 48…264, 40…160; 80 rows
	} {
		got := j.apply(s, c.view)
		if len(got.Objects) != 3 {
			t.Errorf("%+v: %d objects", c.view, len(got.Objects))
			continue
		}
		for k, o := range got.Objects {
			gomlxtest.NearAbs(t, fmt.Sprintf("%+v: object %d", c.view, k), o.Box[:], c.want[:], 1e-9)
			if k == 1 && o.Mask.Area() != int(c.want[2]*c.want[3]) {
				t.Errorf("%+v: object %d has %d pixels, want %g", c.view, k, o.Mask.Area(), c.want[2]*c.want[3])
			}
		}
	}
	above := j.apply(s, view{rows: 240, cols: 360, top: 165, left: 0})
	equal(t, "objects above what is seen", len(above.Objects), 0)
}

func TestTheBoxOfTheVisiblePartOfPolygons(t *testing.T) {
	shift := func(xy []float64, dx, dy float64) (out []float64) {
		for i := 0; i < len(xy); i += 2 {
			out = append(out, xy[i]+dx, xy[i+1]+dy)
		}
		return out
	}
	triangle := []float64{0, 0, 2, 0, 0, 2}
	for _, c := range []struct {
		name       string
		parts      [][]float64
		rows, cols float64
		want       coco.Box
	}{
		// detectron2's dataset_mapper.py: of this triangle, cut by (1, 0) to (2, 2), (1, 0) to (2, 1) remains.
		{"detectron2's triangle", [][]float64{shift(triangle, -1, 0)}, 2, 1, coco.Box{0, 0, 1, 1}},
		{"inside", [][]float64{shift(triangle, 3, 4)}, 9, 9, coco.Box{3, 4, 2, 2}},
		{"two parts", [][]float64{shift(triangle, 3, 4), {7, 1, 8, 1, 8, 2}}, 9, 9, coco.Box{3, 1, 5, 5}},
		{"around everything", [][]float64{{-5, -5, 20, -5, 20, 20, -5, 20}}, 9, 7, coco.Box{0, 0, 7, 9}},
		{"outside", [][]float64{shift(triangle, 20, 20)}, 9, 9, coco.Box{}},
		{"outside, though its box is not", [][]float64{{8, -8, 20, -8, 20, 8}}, 9, 9, coco.Box{}},
		{"touching", [][]float64{{9, 2, 12, 2, 12, 5, 9, 5}}, 9, 9, coco.Box{}},
		{"exactly everything", [][]float64{{0, 0, 7, 0, 7, 9, 0, 9}}, 9, 7, coco.Box{0, 0, 7, 9}},
		{"along the border", [][]float64{{0, 9, 0, 0, 4, 0, 4, 9}}, 9, 7, coco.Box{0, 0, 4, 9}},
		{"touching from outside", [][]float64{{6, -2, 12, -2, 12, 6, 9, 6, 9, 1, 6, 1}}, 9, 9, coco.Box{6, 0, 3, 1}},
		{"one part inside, one touching", [][]float64{{3, 4, 5, 4, 5, 6, 3, 6}, {9, 0, 12, 0, 12, 8, 9, 8}}, 9, 9,
			coco.Box{3, 4, 2, 2}},
		{"a tooth of a C around the image", [][]float64{{-4, -5, 12, -5, 12, -3, -2, -3, -2, 4, 1, 4, 1, 5, -2, 5, -2, 11, 12,
			11, 12, 13, -4, 13}}, 9, 9, coco.Box{0, 4, 1, 1}},
		{"around a corner", [][]float64{{6, -2, 12, -2, 12, 6, 10, 6, 10, 1, 6, 1}}, 9, 9, coco.Box{6, 0, 3, 1}},
	} {
		equal(t, c.name, seenBox(c.parts, c.rows, c.cols), c.want)
	}
}

// maskOf is the mask of a polygon.
func maskOf(polygon []float64, height, width int) (coco.RLE, error) {
	s := coco.Segmentation{Polygons: [][]float64{polygon}}
	return s.Mask(height, width)
}
