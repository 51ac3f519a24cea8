// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/image/draw"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/fixtures"
	"github.com/wepe-go/wepe/internal/gomlxtest"
	"github.com/wepe-go/wepe/internal/is"
)

// numbered returns images of 4×6 pixels that are all different.
func numbered(images, channels int) *data.InMemory {
	s := &data.InMemory{Info: data.Info{Name: "numbers", Height: 4, Width: 6, Channels: channels, Classes: []string{"one"},
		Labels: make([]int32, images)}}
	for i := range images * 4 * 6 * channels {
		s.Pixels = append(s.Pixels, uint8(i))
	}
	return s
}

// Nearest neighbour, black outside.
func TestMoved_EqualsTorchvision(t *testing.T) { fixtures.Each(t, testMoved) }

func testMoved(t *testing.T) {
	var meta struct{ Tolerance map[string]float64 }
	fixtures.JSON(t, "official_analysis", "meta.json", &meta)
	tensors := fixtures.Tensors(t, "official_analysis", "tensors.safetensors")
	in := tensors["geometry.image_u8"]
	height, width := in.Shape[0], in.Shape[1]
	set := &data.InMemory{
		Info: data.Info{Height: height, Width: width, Channels: 3, Labels: make([]int32, 2), Classes: []string{"one"}},
	}
	for _, v := range in.Data {
		set.Pixels = append(set.Pixels, uint8(v))
	}
	kinds := map[string]bool{}
	for name, x := range tensors { // geometry.rotate5_out, scale1.1, translate5_5, shear5_0
		name, isMove := strings.CutPrefix(name, "geometry.")
		name, isOut := strings.CutSuffix(name, "_out")
		if !isMove || !isOut || strings.HasSuffix(name, "_float") {
			continue
		}
		kind := strings.TrimRight(name, "-.0123456789_")
		var by [2]float64
		for i, number := range strings.Split(name[len(kind):], "_") {
			by[i] = gomlxtest.Must(strconv.ParseFloat(number, 64))(t)
		}
		move := movement{Scale: 1}
		switch kind {
		case "rotate":
			move.Rotation = by[0]
		case "scale":
			move.Scale = by[0]
		case "translate":
			move.Shift = [2]float64{by[0] / float64(width), by[1] / float64(height)}
		case "shear":
			if move.Shear = by[0]; by[1] != 0 {
				continue // of columns: not offered here
			}
		default:
			t.Fatalf("the fixture has an unknown movement %s", name)
		}
		kinds[kind] = true
		// A second image makes the mean colour of the dataset black, as far as 8 bits allow.
		one := *set
		one.Pixels = append(slices.Clone(set.Pixels), make([]uint8, len(set.Pixels))...)
		got := moved(&one, move, draw.NearestNeighbor)
		fill := meanColour(&one)
		equal, pixels := 0, height*width
		for p := range pixels {
			pixel := got.Row(0)[3*p : 3*p+3]
			if slices.Equal(pixel, fill) { // outside
				pixel = make([]byte, 3)
			}
			if slices.EqualFunc(pixel, x.Data[3*p:3*p+3], func(a byte, b float64) bool { return float64(a) == b }) {
				equal++
			}
		}
		tolerance := meta.Tolerance["geometry_equal_pixels_fraction"]
		if strings.HasPrefix(name, "scale") {
			tolerance = meta.Tolerance["geometry_equal_pixels_fraction_scale"]
		}
		if part := float64(equal) / float64(pixels); part < tolerance || tolerance == 0 {
			t.Errorf("%s: %.3f of the pixels are equal, want %g", name, part, tolerance)
		}
	}
	is.Equal(t, "kinds of movements", len(kinds), 4)
}

func TestDisturbances_ChangePatchesAsNamed(t *testing.T) {
	for _, channels := range []int{1, 3} {
		set := numbered(3, channels)
		is.Equal(t, "moved by nothing", moved(set, movement{Scale: 1}, draw.BiLinear).Pixels, set.Pixels)
		got := shuffled(set, 2, 7)
		patches := func(s *data.InMemory, i int) (all []string) {
			for row := 0; row < s.Height; row += 2 {
				for col := 0; col < s.Width; col += 2 {
					at := func(y int) []byte { return s.Row(i)[((row+y)*s.Width+col)*channels:][:2*channels] }
					all = append(all, string(at(0))+string(at(1)))
				}
			}
			return all
		}
		for i := range set.Len() {
			before, after := patches(set, i), patches(got, i)
			slices.Sort(before)
			slices.Sort(after)
			is.Equal(t, "patches", after, before)
		}
		is.Equal(t, "shuffled again", shuffled(set, 2, 7).Pixels, got.Pixels)
		same := [2]bool{bytes.Equal(got.Pixels, set.Pixels), bytes.Equal(got.Pixels, shuffled(set, 2, 8).Pixels)}
		is.Equal(t, "the order is the original, or another seed's", same, [2]bool{})
		for i := range set.Pixels {
			set.Pixels[i] = uint8(50 * (i%channels + 1))
		}
		set.Float = make([]float32, len(set.Pixels))
		for _, size := range [][2]int{{7, 5}, {4, 3}, {2, 6}, {4, 6}} { // of 4×6
			got := sized(set, size[0], size[1], preprocess.Bicubic)
			is.Equal(t, "numbers, which a model would prefer", got.Float, nil)
			gomlxtest.NoError(t, data.Check(t.Context(), got, true))
			is.Equal(t, "size", [2]int{got.Height, got.Width}, size)
			is.Equal(t, "pixels", got.Pixels, slices.Repeat(set.Pixels[:channels], 3*size[0]*size[1]))
		}
	}
	set := numbered(5, 3)
	one := gomlxtest.Must(set.Image(t.Context(), 0))(t)
	is.Equal(t, "the kernel", sized(set, 7, 5, preprocess.Nearest).Row(0), one.Resize(7, 5, preprocess.Nearest).Pixels)
	for share, want := range map[float64]int{0: 0, 0.1: 1, 0.3: 2, 0.5: 3, 1: 6} { // of 2×3 patches
		got, mean := occluded(set, 2, share, 1), meanColour(set)
		for i := range set.Len() {
			hidden := 0
			for p := range set.Height * set.Width {
				if pixel := got.Row(i)[3*p : 3*p+3]; !bytes.Equal(pixel, set.Row(i)[3*p:3*p+3]) {
					if hidden++; !bytes.Equal(pixel, mean) {
						t.Errorf("a pixel becomes %v, want the mean %v", pixel, mean)
					}
				}
			}
			// A pixel with the mean colour itself is indistinguishable; there is at most one.
			if hidden != 4*want && hidden != 4*want-1 {
				t.Errorf("share %g, image %d: %d pixels hidden, want %d", share, i, hidden, 4*want)
			}
		}
	}
}

// The name of a row says what was done.
func TestDisturbances_AreThoseOfTheirNames(t *testing.T) {
	set := testImages(2)
	turned := func(m movement) *data.InMemory { return moved(set, m, draw.BiLinear) }
	want := map[string]*data.InMemory{
		"10 % occluded": occluded(set, 4, 0.1, 3), "20 % occluded": occluded(set, 4, 0.2, 3),
		"30 % occluded": occluded(set, 4, 0.3, 3), "patches shuffled": shuffled(set, 4, 3),
		"rotated by 5°": turned(movement{Rotation: 5, Scale: 1}), "rotated by 10°": turned(movement{Rotation: 10, Scale: 1}),
		"rotated by 15°": turned(movement{Rotation: 15, Scale: 1}),
		"rotated by 30°": turned(movement{Rotation: 30, Scale: 1}),
		"scaled by 0.9":  turned(movement{Scale: 0.9}), "scaled by 1.1": turned(movement{Scale: 1.1}),
		"translated by 5/224": turned(movement{Scale: 1, Shift: [2]float64{5. / 224, 5. / 224}}),
		"sheared by 5°":       turned(movement{Scale: 1, Shear: 5}),
	}
	all := slices.Concat(occlusions(4, 3), movements(4, 3), shuffles(4, 3))
	is.Equal(t, "disturbances", len(all), len(want))
	for _, d := range all {
		is.Equal(t, d.name, d.apply(set).Pixels, want[d.name].Pixels)
	}
}

// Uncovered pixels have the mean colour of the dataset, not of one image and not black.
func TestMoved_UncoveredPixelsHaveTheMeanColour(t *testing.T) {
	const height, width = 6, 10
	set := &data.InMemory{Info: data.Info{Height: height, Width: width, Channels: 3, Labels: make([]int32, 2),
		Classes: []string{"one"}}}
	for i := range 2 * height * width { // the channels' means are 60, 80 and 5
		set.Pixels = append(set.Pixels, uint8(120*(i%2)), uint8(40+80*(i/(height*width))), uint8(5))
	}
	for m, at := range map[movement]int{{Scale: 1, Shift: [2]float64{0.5, 0}}: 3*width + 2, {Scale: 0.5}: 9} {
		got := moved(set, m, draw.BiLinear)
		for i := range 2 {
			is.Equal(t, fmt.Sprintf("where nothing is after %+v", m), [3]uint8(got.Row(i)[3*at:]), [3]uint8{60, 80, 5})
		}
	}
}

// At each size the images are read again. Sizes are multiples of the training size, 12×20 pixels in patches of 4, also
// if the model is opened at another.
func TestResolution_OtherSizesHaveTheirOwnImages(t *testing.T) {
	gomlxtest.OnGo(t)
	path := trained(t, "learned", 1, nil)
	images := func(m *finetune.Model) *data.InMemory {
		if m.Recipe.Model.ImageRows == 24 {
			return testImages(7)
		}
		return testImages(11)
	}
	of := func(_ context.Context, m *finetune.Model) (*data.InMemory, func(int) []bool, error) {
		return images(m), nil, nil
	}
	rows := compared(t, "resolution", of, Model{Name: "a", Path: path},
		Model{Name: "other", Path: path, Size: [2]int{24, 16}})
	for size, at := range map[[2]int]string{{12, 20}: "1 × 1 training size, 12x20", {24, 40}: "2 × 2 training size, 24x40",
		{8, 40}: "0.667 × 2 training size, 8x40"} { // of 1.5 patches 2
		m := gomlxtest.Must(finetune.OpenOptions{Size: size}.Open(gomlxtest.Backend(), path))(t)
		want := 100 * float64(gomlxtest.Must(m.Evaluate(images(m)))(t).Top1)
		for _, model := range []string{"a", "other"} {
			is.Equal(t, model+" at "+at, value(t, rows, "resolution", model, "top-1 accuracy, %", at), want)
		}
	}
	square := trained(t, "learned", 1, func(r *finetune.Recipe) { r.Augment.Size = [2]int{12, 12} })
	measured := map[string]int{} // ½ and ¾ of 3 patches are 2
	for _, r := range compared(t, "resolution", of, Model{Name: "a", Path: square}) {
		measured[r.At]++
	}
	is.Equal(t, "0.667 × 0.667 training size, 8x8", measured["0.667 × 0.667 training size, 8x8"], 1)
	for _, r := range rows {
		is.Equal(t, "images of "+r.At, r.Count, map[bool]int{true: 7, false: 11}[strings.Contains(r.At, ", 24x")])
	}
}
