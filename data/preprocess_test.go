// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Settings with a fixed output size give images of that size; of others the size is unknown.
func TestPreprocess_OutputSize(t *testing.T) {
	for s, want := range map[preprocess.Settings][2]int{
		{Resize: preprocess.ResizeExact, Size: [2]int{5, 7}}:                        {5, 7},
		{Resize: preprocess.ResizeShortest, Size: [2]int{9, 9}, Crop: [2]int{5, 7}}: {5, 7},
		{Crop: [2]int{3, 2}}: {3, 2}, {Resize: preprocess.ResizeShortest, Size: [2]int{9, 9}}: {},
		{Resize: preprocess.ResizeContain, Size: [2]int{9, 8}}: {}, {}: {},
	} {
		height, width, err := s.OutputSize()
		if [2]int{height, width} != want || (err == nil) != (height > 0) {
			t.Errorf("%+v: %d×%d, %v", s, height, width, err)
		}
		got := gomlxtest.Must((&Image{Height: 2, Width: 11, Pixels: make([]uint8, 66)}).Preprocess(s))(t)
		if err == nil && (got.Height != height || got.Width != width || len(got.Pixels) != 3*height*width) {
			t.Errorf("%+v: %+v", s, got)
		}
	}
}

// Trimmed images are the first rows and columns of the others, whatever the resize and crop.
func TestPreprocess_TrimKeepsTheTopLeft(t *testing.T) {
	img := &Image{Height: 11, Width: 17, Pixels: make([]uint8, 11*17*3)}
	for i := range img.Pixels {
		img.Pixels[i] = uint8(i * 37)
	}
	for _, s := range []preprocess.Settings{
		{Resize: preprocess.ResizeExact, Size: [2]int{9, 7}}, {Crop: [2]int{7, 13}}, {Crop: [2]int{13, 7}},
		{Resize: preprocess.ResizeExact, Size: [2]int{9, 7}, Float: true},
		{Resize: preprocess.ResizeExact, Size: [2]int{9, 7}, Resample: preprocess.Nearest},
		{Resize: preprocess.ResizeShortest, Size: [2]int{8, 8}, Crop: [2]int{7, 7}, Resample: preprocess.Bicubic},
		{Resize: preprocess.ResizeContain, Size: [2]int{9, 9}, Crop: [2]int{9, 9}, Fill: [3]uint8{1, 2, 3}},
	} {
		whole := gomlxtest.Must(img.Preprocess(s))(t)
		s.Trim = [2]int{6, 5}
		got := gomlxtest.Must(img.Preprocess(s))(t)
		rows, cols, err := s.OutputSize()
		if err != nil || s.Validate() != nil || [2]int{rows, cols} != s.Trim || got.Height != 6 || got.Width != 5 {
			t.Fatalf("%+v: %v, %v, %d×%d, output %d×%d", s, err, s.Validate(), got.Height, got.Width, rows, cols)
		}
		for i := range got.Pixels {
			at := (i/15*whole.Width+i%15/3)*3 + i%3
			if got.Pixels[i] != whole.Pixels[at] || s.Float && got.Float[i] != whole.Float[at] {
				t.Fatalf("%+v: number %d is %d, want %d", s, i, got.Pixels[i], whole.Pixels[at])
			}
		}
	}
}

// A ribbon of 65,535×1 pixels becomes 131,070 pixels long, or 19,660,500, but only its crop is computed; an output of
// that size is refused.
func TestPreprocess_OnlyTheCropOfARibbonIsComputed(t *testing.T) {
	pixels := bytes.Repeat([]byte{7, 11, 13}, 65535)
	for _, ribbon := range []*Image{{Height: 1, Width: 65535, Pixels: pixels}, {Height: 65535, Width: 1, Pixels: pixels}} {
		for _, edge := range []int{2, 300} {
			for _, r := range []preprocess.Resample{preprocess.Bicubic, preprocess.Nearest} {
				s := preprocess.Settings{Resize: preprocess.ResizeShortest, Size: [2]int{edge, edge}, Resample: r,
					Float: r != preprocess.Nearest && edge == 2}
				cropped := s
				cropped.Crop = [2]int{2, 2}
				var got *Image
				var err error
				used, _ := campaign.Cost(func() { got, err = ribbon.Preprocess(cropped) })
				if err != nil || used > 4<<20 || !bytes.Equal(got.Pixels, bytes.Repeat([]byte{7, 11, 13}, 4)) {
					t.Errorf("%+v: %v, %v, %d bytes", cropped, got, err, used)
				}
				if _, err := ribbon.Preprocess(s); (err == nil) != (edge == 2) {
					t.Errorf("%+v: %v", s, err)
				}
			}
		}
	}
}

// The fixtures contain an image before and after DINOv3's processor.
func TestPreprocess_AResizeOfNumbersIsTorchvisions(t *testing.T) {
	fixtures.Each(t, testAResizeOfNumbers)
}

func testAResizeOfNumbers(t *testing.T) {
	for _, set := range []string{"dinov3_vit_tiny", "dinov3_vit_tiny_swiglu"} {
		file := filepath.Join(fixtures.Dir(t, set), "preprocessor_config.json")
		settings := gomlxtest.Must(preprocess.Parse(gomlxtest.Must(os.ReadFile(file))(t)))(t)
		all := fixtures.Tensors(t, set, "tensors.safetensors")
		raw, want := all["preprocess.image_u8"], all["preprocess.pixel_values_nhwc_out"]
		img := &Image{Height: raw.Shape[0], Width: raw.Shape[1]}
		for _, v := range raw.Data {
			img.Pixels = append(img.Pixels, uint8(v))
		}
		img = gomlxtest.Must(img.Preprocess(settings))(t)
		mean, std := settings.Normalization()
		var got []float64
		for i, v := range img.Float {
			got = append(got, (float64(v)/255-mean[i%3])/std[i%3])
			if d := math.Abs(float64(v) - float64(img.Pixels[i])); d > 0.5 {
				t.Fatalf("%s: pixel %d is %g, and %d rounded", set, i, v, img.Pixels[i])
			}
		}
		gomlxtest.NearAbs(t, set, got, want.Data, 1e-5)
	}
}

var toStrips = preprocess.Settings{Resize: preprocess.ResizePatches, Size: [2]int{20, 16}, Patch: 4} // 5×4 patches

func TestStrip_IsCutAndReassembled(t *testing.T) {
	for _, grid := range [][2]int{{5, 4}, {4, 5}, {2, 7}, {3, 6}, {8, 2}} {
		img := gomlxtest.Must(noise(1, 4*grid[0], 4*grid[1], 3).Image(t.Context(), 0))(t)
		strip := gomlxtest.Must(img.Preprocess(toStrips))(t)
		equal(t, "grid", strip.Grid, grid)
		equal(t, "strip", [3]int{strip.Height, strip.Width, len(strip.Pixels)}, [3]int{80, 4, 3 * 80 * 4})
		var want []uint8 // patches row by row, then black
		for k := range grid[0] * grid[1] {
			for y := range 4 {
				at := 3 * ((k/grid[1]*4+y)*img.Width + k%grid[1]*4)
				want = append(want, img.Pixels[at:at+3*4]...)
			}
		}
		equal(t, "patches", strip.Pixels, append(want, make([]uint8, len(strip.Pixels)-len(want))...))
		set := &InMemory{
			Info:   Info{Labels: []int32{0}, Height: 80, Width: 4, Channels: 3, Grids: [][2]int{grid}},
			Pixels: strip.Pixels,
		}
		equal(t, "the image of the set", FromImage(set.RGBA(0)), img)
	}
}

// wrapped is a dataset of another module.
type wrapped struct{ *InMemory }

func TestStrip_GridsStayWithTheirImages(t *testing.T) {
	train, test, err := ShapesOfAspects(taskShape, 53, 31, 24, 3, toStrips)
	gomlxtest.NoError(t, err)
	gomlxtest.NoError(t, errors.Join(train.check(), test.check()))
	rows := []int{17, 3, 3, 50}
	some := train.Subset(rows)
	numbers := Augment{}.Plan(train, 0, 0, 0, rows).Grids
	known := preprocess.Grids(20)
	for k, row := range rows {
		if some.Grids[k] != train.Grids[row] || known[numbers[k]] != train.Grids[row] {
			t.Errorf("row %d: grid %v, number %d, want %v", row, some.Grids[k], numbers[k], train.Grids[row])
		}
	}
	before := slices.Clone(train.Grids)
	loaded := gomlxtest.Must(Load(t.Context(), wrapped{train}, rows))(t)
	equal(t, "grids of another module's dataset", loaded.Grids, some.Grids)
	equal(t, "grids afterwards", train.Grids, before)
	for a, valid := range map[Augment]bool{{HFlip: 0.5}: false, {Pad: 1}: false, {CutmixAlpha: 1}: false,
		{Size: [2]int{6, 6}}: false, {MixupAlpha: 1, RepeatedAug: 2, Std: [3]float64{1, 2, 3}}: true} {
		for _, err := range Batches(train, 7, a, 1).Iter() {
			equal(t, fmt.Sprintf("%+v of patches: %v", a, err), err == nil, valid)
			break
		}
	}
	other := train.Subset(rows)
	other.Grids[1] = [2]int{4, 4}
	equal(t, "same fingerprint of other grids", Fingerprint(other) == Fingerprint(some), false)
	other.Grids[1] = [2]int{1, 2}
	oneLine(t, "a grid that no image has", other.check(), "image 1")
}
